package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// startWithKubeVirt is startInstallation with KubeVirt and without a migration. The API server
// cannot call the webhooks, because the cluster has no Services.
func startWithKubeVirt(t *testing.T) (*installation, *kubevirttest.Cluster) {
	t.Helper()
	c := startKubeVirt(t)
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"),
		corev1.ResourceRequestsMemory: resource.MustParse("1Gi")}
	u := &installation{plane: c.Plane, admin: clientFor(t, c.Plane.Config()),
		namespace: c.Namespace(t, hard)}
	u.objects = apply(t, u.plane, render(t, append(enforce(), "--set=webhooks.enabled=false")...))
	if err := u.readJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u, c
}

// TestUninstallWhileTheControllerWorks raises a full quota for a migration by the real controller.
// The uninstall stops the controller and reverts its changes. They must not come back.
func TestUninstallWhileTheControllerWorks(t *testing.T) {
	u, c := startWithKubeVirt(t)
	process := u.startController(t)
	vmi := c.RunningVMI(t, u.namespace, "vm", kubevirttest.Size{Cores: 1, Memory: "512Mi"})
	m := c.MigrateUntil(t, vmi, kubevirtv1.MigrationTargetReady)
	m.Await(t, kubevirtv1.MigrationTargetReady)
	if q := u.quota(t); q.Spec.Hard.Pods().Value() != 2 ||
		q.Annotations[quota.BaseAnnotation] == "" {
		t.Fatalf("the controller has not raised the quota: %v, annotations %v", q.Spec.Hard,
			q.Annotations)
	}
	ended := make(chan error, 1)
	go func() { ended <- u.endWhenScaledDown(t.Context(), process) }()
	var out string
	eventually(t, "the rights of the account", func() (err error) {
		out, err = u.run(t.Context())
		return err
	})
	if err := <-ended; err != nil {
		t.Errorf("ending the controller: %v", err)
	}
	for _, want := range []string{
		"scale Deployment mooring-system/mooring-controller down to 0: done\n",
		"restore ResourceQuota " + u.namespace + "/" + kubevirttest.QuotaName +
			": pods 2 -> 1, requests.memory ",
		" of migration " + m.Get(t).Name + " (quotas may refuse its pods): done\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("printed %q, want %q in it", out, want)
		}
	}
	u.checkNoReservations(t)
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded) // a started migration continues
	u.checkNoReservations(t)
	u.remove(t)
}

func (u *installation) quota(t *testing.T) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{}
	if err := u.admin.Get(t.Context(), client.ObjectKey{Namespace: u.namespace,
		Name: kubevirttest.QuotaName}, q); err != nil {
		t.Fatal(err)
	}
	return q
}

func (u *installation) checkNoReservations(t *testing.T) {
	t.Helper()
	q := u.quota(t)
	if q.Spec.Hard.Pods().Value() != 1 || len(q.Annotations) > 0 {
		t.Errorf("the quota has %v, annotations %v", q.Spec.Hard, q.Annotations)
	}
	var reservations v1alpha1.MigrationReservationList
	if err := u.admin.List(t.Context(), &reservations); err != nil {
		t.Fatal(err)
	}
	if n := len(reservations.Items); n > 0 {
		t.Errorf("%d reservations remain", n)
	}
}
