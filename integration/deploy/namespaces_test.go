package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// enforcedNamespaces also returns the namespace as it is, and a client of who may annotate it.
func enforcedNamespaces(t *testing.T) (*policed, *corev1.Namespace, client.Client) {
	t.Helper()
	p := enforced(t)
	ns := &corev1.Namespace{}
	if err := p.admin.Get(t.Context(), client.ObjectKey{Name: p.namespace}, ns); err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"everything-" + p.namespace, "mooring-namespace-annotations"} {
		p.bind(t, "sharer", role)
	}
	sharer := p.as(t, "sharer", rest.NoWarnings{})
	eventually(t, "the policy for namespaces and the role", func() error {
		if err := annotate(t, sharer, ns, quota.MaintenanceAnnotation, "10"); err != nil {
			return err
		}
		return refusedBy("mooring-namespace-annotations", annotate(t, p.plain, ns, quota.MaintenanceAnnotation, "10"))
	})
	return p, ns, sharer
}

// annotate tries to set an annotation of an object.
func annotate(t *testing.T, by client.Client, o client.Object, key, value string) error {
	t.Helper()
	changed := o.DeepCopyObject().(client.Object)
	annotations := map[string]string{key: value}
	for k, v := range o.GetAnnotations() {
		if k != key {
			annotations[k] = v
		}
	}
	changed.SetAnnotations(annotations)
	return by.Patch(t.Context(), changed, client.MergeFrom(o), client.DryRunAll)
}

// TestNamespaceAnnotationsAreRefused: how much of a namespace is set aside is not up to
// everybody who may label it.
func TestNamespaceAnnotationsAreRefused(t *testing.T) {
	p, ns, sharer := enforcedNamespaces(t)
	const key = quota.MaintenanceAnnotation
	wantRefused(t, key, annotate(t, p.plain, ns, key, "10"),
		"plain may not change "+key, `verb "set" for namespaceannotations.mooring.dev in namespace `+p.namespace)
	wantRefused(t, key+", by who may annotate pods", annotate(t, p.annotator, ns, key, "10"), key)
	if err := annotate(t, p.plain, ns, "example.com/a", "1"); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	made := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "made", Annotations: map[string]string{key: "10"}}}
	}
	wantRefused(t, "made", p.plain.Create(t.Context(), made(), client.DryRunAll), key, "in namespace made")
	if err := sharer.Create(t.Context(), made(), client.DryRunAll); err != nil {
		t.Errorf("made by who may: %v", err)
	}
	side := ns.DeepCopy()
	side.Annotations = map[string]string{key: "10"}
	wantRefused(t, "with the status", p.plain.Status().Update(t.Context(), side.DeepCopy(), client.DryRunAll), key)
	wantRefused(t, "with the finalizers", p.plain.SubResource("finalize").Update(t.Context(), side.DeepCopy(), client.DryRunAll), key)
}

// Whoever changes something else of a namespace is let through.
func TestNamespaceAnnotationsAreKept(t *testing.T) {
	p, ns, sharer := enforcedNamespaces(t)
	const key = quota.MaintenanceAnnotation
	ns.Annotations = map[string]string{key: "10"}
	if err := sharer.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if err := annotate(t, p.plain, ns, "example.com/a", "1"); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	if err := p.plain.Status().Update(t.Context(), ns.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("the status: %v", err)
	}
	wantRefused(t, "changed", annotate(t, p.plain, ns, key, "20"), key)
	removed := ns.DeepCopy()
	removed.Annotations = nil
	wantRefused(t, "removed", p.plain.Update(t.Context(), removed, client.DryRunAll), key)
}

// TestTargetChargesAreRefused: what a migration's target is charged is noted by the
// controller's webhook alone.
func TestTargetChargesAreRefused(t *testing.T) {
	p := enforced(t)
	r := &v1alpha1.MigrationReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "uid-1"},
		Spec: v1alpha1.MigrationReservationSpec{
			Migration: v1alpha1.Reference{Name: "migration"}, VMI: v1alpha1.Reference{Name: "vm"}, From: v1alpha1.Estimated,
			Pods: []v1alpha1.ReservedPod{{Role: v1alpha1.RoleLauncher, Charge: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}},
		},
	}
	eventually(t, "the CRD to be served", func() error { return p.admin.Create(t.Context(), r) })
	eventually(t, "the policy for reservations", func() error {
		return refusedBy("mooring-quota-annotations", annotate(t, p.plain, r, quota.TargetAnnotation, "{}"))
	})
	wantRefused(t, "set", annotate(t, p.plain, r, quota.TargetAnnotation, "{}"), "plain may not change "+quota.TargetAnnotation, "quotaannotations.mooring.dev")
	wantRefused(t, "by who may annotate pods", annotate(t, p.annotator, r, quota.TargetAnnotation, "{}"), quota.TargetAnnotation)
	controller := p.as(t, "system:serviceaccount:"+system+":mooring-controller", rest.NoWarnings{})
	if err := annotate(t, controller, r, quota.TargetAnnotation, "{}"); err != nil {
		t.Errorf("by the controller: %v", err)
	}
	if err := annotate(t, p.plain, r, "example.com/a", "1"); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	if err := p.admin.Delete(t.Context(), r); err != nil { // an uninstall would find it
		t.Error(err)
	}
}
