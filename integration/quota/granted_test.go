package quota

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestNotGrantedBeforeItIsInForce suspends the quota controller. A raised spec.hard is granted only
// when status.hard contains it. Until then the migration does not proceed, and Mooring reports no
// grant.
func TestNotGrantedBeforeItIsInForce(t *testing.T) {
	c, _ := start(t)
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	resume := suspendQuotas(t, c)
	m := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	m.AwaitRejected(t)

	// The controller makes its second write of the quota only after it processed and reported the
	// first.
	awaitRaised(t, c, ns, full())
	edited := full()
	edited[corev1.ResourceRequestsMemory] = resource.MustParse("3Gi")
	setHard(t, c, ns, edited)
	r := awaitRaised(t, c, ns, edited)
	if r.Status.Phase != "" && r.Status.Phase != v1alpha1.PhaseReserved {
		t.Errorf("state %s", r.Status.Phase)
	}
	if meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionGranted) {
		t.Errorf("granted: %+v", r.Status.Conditions)
	}
	if got := m.Get(t); got.Status.Phase != virtv1.MigrationPending || !kubevirttest.Rejected(got) {
		t.Errorf("the migration is %s", got.Status.Phase)
	}
	awaitEvents(t, c, m.Get(t), quota.ReasonReserved)
	if n := countEvents(t, c, m.Get(t))[quota.ReasonGranted]; n > 0 {
		t.Errorf("%d Events that it is granted", n)
	}
	if got := quotaOf(t, c, ns, kubevirttest.QuotaName).Status.Hard; !equality.Semantic.DeepEqual(
		got, full()) {
		t.Fatalf("status.hard was set to %v", got)
	}

	resume()
	m.Await(t, virtv1.MigrationPreparingTarget)
	awaitEvents(t, c, m.Get(t), quota.ReasonReserved, quota.ReasonGranted)
	r = awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionGranted) {
		t.Errorf("not granted: %+v", r.Status.Conditions)
	}
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, edited)
}

// TestGrantedNoMore withdraws a grant when an administrator's edit is not in force yet.
func TestGrantedNoMore(t *testing.T) {
	c, _ := start(t)
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	start := stopVirtController(t, c)
	defer start() // for other tests
	m := c.Migrate(t, vmi)
	awaitPhase(t, c, ns, v1alpha1.PhaseGranted)
	resume := suspendQuotas(t, c)
	setHard(t, c, ns, list("requests.memory", "3Gi"))
	r := awaitPhase(t, c, ns, v1alpha1.PhaseReserved)
	if !meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.ConditionGranted) {
		t.Errorf("granted: %+v", r.Status.Conditions)
	}
	resume()
	awaitPhase(t, c, ns, v1alpha1.PhaseGranted)
	m.Abort(t)
	start()
	awaitClean(t, c, ns, kubevirttest.QuotaName, list("requests.memory", "3Gi", "requests.cpu",
		"300m", "pods", "1"))
}

// suspendQuotas stops kube-controller-manager, so that status.hard does not follow spec.hard. This
// lasts until resume is called or t ends.
func suspendQuotas(t *testing.T, c *kubevirttest.Cluster) (resume func()) {
	t.Helper()
	if err := c.Controllers.Stop(); err != nil {
		t.Error(err) // and start it for the following tests
	}
	suspended := true
	resume = func() {
		if !suspended {
			return
		}
		suspended = false
		var err error
		if c.Controllers, err = c.Plane.StartControllers(context.WithoutCancel(t.Context()),
			kubevirttest.Controllers()...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(resume)
	return resume
}

// awaitRaised returns the only reservation when spec.hard includes it.
func awaitRaised(
	t *testing.T, c *kubevirttest.Cluster, ns string, base corev1.ResourceList,
) v1alpha1.MigrationReservation {
	t.Helper()
	var found v1alpha1.MigrationReservation
	eventually(t, "spec.hard to be raised", func() error {
		all := reservations(t, c, ns)
		if len(all) != 1 {
			return fmt.Errorf("%d reservations", len(all))
		}
		found = all[0]
		if hard := quotaOf(t, c, ns,
			kubevirttest.QuotaName).Spec.Hard; !equality.Semantic.DeepEqual(hard,
			plus(base, found)) {
			return fmt.Errorf("spec.hard %v, want %v", hard, plus(base, found))
		}
		return nil
	})
	return found
}
