package uninstall

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func limits(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceLimitsCPU: resource.MustParse(cpu)}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func inVMs(name string, annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "vms", Name: name, Annotations: annotations}
}

func raisedQuota(name, base, applied, hard string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: inVMs(name, map[string]string{
			quota.BaseAnnotation:           `{"limits.cpu":"` + base + `"}`,
			quota.AppliedAnnotation:        `{"limits.cpu":"` + applied + `"}`,
			quota.RetryAnnotation:          "2026-11-24T10:00:00Z",
			"harvesterhci.io/migratingVMs": `{"web":{"limits.cpu":"4"}}`,
			"example.com/kept":             "yes",
		}),
		Spec: corev1.ResourceQuotaSpec{Hard: limits(hard)},
	}
}

func reservation(name string) *v1alpha1.MigrationReservation {
	return &v1alpha1.MigrationReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name,
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.MigrationReservationSpec{Migration: v1alpha1.Reference{Name: "m-" + name}},
	}
}

func lease(renewed time.Time) *coordinationv1.Lease {
	holder, seconds := "controller-1", int32(15)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: controllerName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds,
			RenewTime: &metav1.MicroTime{Time: renewed.Truncate(time.Microsecond)},
		},
	}
}

func deployment(replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: controllerName},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
	}
}

// newCluster returns a cluster with these objects, and its printed lines.
func newCluster(t *testing.T, objects ...client.Object) (*Cluster, *[]string) {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	var printed []string
	c := &Cluster{
		Client:    fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build(),
		Namespace: DefaultNamespace, Quota: quota.Options{Prefix: quota.DefaultPrefix},
		Patience: time.Minute, Now: time.Now,
		Report: Report{Print: func(line string) { printed = append(printed, line) }},
	}
	return c, &printed
}

func installed() []client.Object {
	return []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms", Annotations: map[string]string{
			"harvesterhci.io/vmAvailable": "{}", "harvesterhci.io/maintenanceAvailable": "{}",
			"harvesterhci.io/maintenanceQuota": "{}",
		}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named(guardName)},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: named(launcherName)},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: named("another")},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named("mooring-annotations")},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named("mooring-launchers")},
		raisedQuota("default", "12", "16", "16"),
		&corev1.ResourceQuota{ObjectMeta: inVMs("plain", nil),
			Spec: corev1.ResourceQuotaSpec{Hard: limits("3")}},
		reservation("uid-1"),
	}
}

func TestClusterIsCleared(t *testing.T) {
	c, printed := newCluster(t, installed()...)
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"remove ValidatingWebhookConfiguration mooring-guard: done",
		"remove MutatingWebhookConfiguration mooring-launcher: done",
		"remove ValidatingAdmissionPolicyBinding mooring-annotations: done",
		"remove ValidatingAdmissionPolicyBinding mooring-launchers: done",
		"restore ResourceQuota vms/default: limits.cpu 16 -> 12: done",
		"remove MigrationReservation vms/uid-1 of migration m-uid-1 (quotas may refuse its " +
			"pods): done",
		"clear the computed annotations and label of namespace vms: done",
	}
	if diff := cmp.Diff(want, *printed); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	checkCleared(t, c)
	*printed = nil
	if err := c.Run(t.Context()); err != nil || len(*printed) > 0 {
		t.Errorf("the second time: %v, printed %q", err, *printed)
	}
}

func checkCleared(t *testing.T, c *Cluster) {
	t.Helper()
	var hooks admissionv1.MutatingWebhookConfigurationList
	var quotas corev1.ResourceQuotaList
	var reservations v1alpha1.MigrationReservationList
	var ns corev1.Namespace
	for _, list := range []client.ObjectList{&hooks, &quotas, &reservations} {
		if err := c.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "vms"}, &ns); err != nil {
		t.Fatal(err)
	}
	if len(hooks.Items) != 1 || len(reservations.Items) != 0 {
		t.Errorf("%d webhooks, want the foreign one; %d reservations, want none", len(hooks.Items),
			len(reservations.Items))
	}
	for _, q := range quotas.Items {
		want := map[string]string{"default": "12", "plain": "3"}[q.Name]
		if hard := q.Spec.Hard[corev1.ResourceLimitsCPU]; hard.String() != want {
			t.Errorf("quota %s has %s, want %s", q.Name, hard.String(), want)
		}
	}
	if diff := cmp.Diff(map[string]string{"example.com/kept": "yes"},
		quotas.Items[0].Annotations); diff != "" {
		t.Errorf("annotations of the quota (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"harvesterhci.io/maintenanceQuota": "{}"},
		ns.Annotations); diff != "" {
		t.Errorf("annotations of the namespace (-want +got):\n%s", diff)
	}
}

func TestDryRunDoesNothing(t *testing.T) {
	objects := append(installed(), lease(time.Now()), deployment(2))
	c, printed := newCluster(t, objects...)
	c.Report.DryRun, c.Force = true, true
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(*printed) != 8 {
		t.Errorf("printed %q", *printed)
	}
	for _, line := range *printed {
		if !strings.HasPrefix(line, "would ") {
			t.Errorf("printed %q", line)
		}
	}
	checkUnchanged(t, c, objects)
}

// checkUnchanged checks that the objects equal the ones given to newCluster.
func checkUnchanged(t *testing.T, c *Cluster, objects []client.Object) {
	t.Helper()
	for _, was := range objects {
		is := was.DeepCopyObject().(client.Object)
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(was), is); err != nil {
			t.Errorf("%T %s: %v", was, was.GetName(), err)
			continue
		}
		is.SetResourceVersion(was.GetResourceVersion())
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%T %s was changed (-was +is):\n%s", was, was.GetName(), diff)
		}
	}
}

// An administrator's edit of a raised quota becomes the base, as in the controller.
func TestEditedQuotaIsKept(t *testing.T) {
	c, _ := newCluster(t, &corev1.Namespace{ObjectMeta: named("vms")},
		raisedQuota("default", "12", "16", "20"))
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var q corev1.ResourceQuota
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: "default"},
		&q); err != nil {
		t.Fatal(err)
	}
	if hard := q.Spec.Hard[corev1.ResourceLimitsCPU]; hard.String() != "20" ||
		q.Annotations[quota.BaseAnnotation] != "" {
		t.Errorf("%s, annotations %v", hard.String(), q.Annotations)
	}
}

// All unreadable bases are reported before any change, even before the controller is stopped.
func TestFaultsAreReportedFirst(t *testing.T) {
	faulty, managed := raisedQuota("faulty", "many", "16", "16"),
		raisedQuota("managed", "12", "16", "16")
	managed.Labels = map[string]string{"manager": "true"}
	objects := append(installed(), lease(time.Now()), deployment(2), faulty, managed)
	objects[0].GetAnnotations()["manager"] = "many"
	c, printed := newCluster(t, objects...)
	c.Force, c.Quota.ManagerAnnotation, c.Quota.ManagerLabel = true, "manager", "manager"
	err := c.Run(t.Context())
	for _, want := range []string{
		"read the base of ResourceQuota vms/faulty: ResourceQuota faulty: annotation " +
			"base.quota.mooring.dev",
		"read the base of ResourceQuota vms/managed: namespace vms: annotation manager",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if len(*printed) > 0 {
		t.Errorf("printed %q", *printed)
	}
	checkUnchanged(t, c, objects)
}

// TestReleasePods: uninstall removes the finalizer of fencing from living and from deleted pods.
func TestReleasePods(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name,
			Labels:     map[string]string{api.FencingLabel: "true"},
			Finalizers: []string{"example.com/a", api.PodFinalizer}}}
	}
	deleted := pod("deleted")
	deleted.Finalizers = deleted.Finalizers[1:]
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	c, lines := newCluster(t, pod("lives"), deleted)
	if err := c.ReleasePods(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := &corev1.PodList{}
	if err := c.Client.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 1 || len(left.Items[0].Finalizers) != 1 {
		t.Errorf("pods %+v", left.Items)
	}
	want := []string{
		"remove the finalizer of pod vms/deleted (deleted: its VM may still run): done",
		"remove the finalizer of pod vms/lives: done",
	}
	if diff := cmp.Diff(want, *lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
