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

// startEnforcedNamespaces is startEnforced. It also returns the current namespace, and a client
// with the right to annotate it.
func startEnforcedNamespaces(t *testing.T) (*policyTest, *corev1.Namespace, client.Client) {
	t.Helper()
	p := startEnforced(t)
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
		return checkRefusedBy("mooring-namespace-annotations",
			annotate(t, p.plain, ns, quota.MaintenanceAnnotation, "10"))
	})
	return p, ns, sharer
}

// annotate sets an annotation of an object and returns the error.
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

// TestNamespaceAnnotationsAreRefused: the right to label a namespace must not suffice to set its
// maintenance share.
func TestNamespaceAnnotationsAreRefused(t *testing.T) {
	p, ns, sharer := startEnforcedNamespaces(t)
	const key = quota.MaintenanceAnnotation
	wantRefused(t, key, annotate(t, p.plain, ns, key, "10"),
		"plain may not change "+key,
		`verb "set" for namespaceannotations.mooring.dev in namespace `+p.namespace)
	wantRefused(t, key+", by a user with the right to annotate pods",
		annotate(t, p.annotator, ns, key, "10"), key)
	if err := annotate(t, p.plain, ns, "example.com/a", "1"); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	made := func() *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "made",
			Annotations: map[string]string{key: "10"}}}
	}
	wantRefused(t, "made", p.plain.Create(t.Context(), made(), client.DryRunAll), key,
		"in namespace made")
	if err := sharer.Create(t.Context(), made(), client.DryRunAll); err != nil {
		t.Errorf("made with the right: %v", err)
	}
	side := ns.DeepCopy()
	side.Annotations = map[string]string{key: "10"}
	wantRefused(t, "with the status", p.plain.Status().Update(t.Context(), side.DeepCopy(),
		client.DryRunAll), key)
	wantRefused(t, "with the finalizers", p.plain.SubResource("finalize").Update(t.Context(),
		side.DeepCopy(), client.DryRunAll), key)
}

// Changes of other parts of a namespace pass.
func TestNamespaceAnnotationsAreKept(t *testing.T) {
	p, ns, sharer := startEnforcedNamespaces(t)
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

// TestTargetChargesAreRefused: only the controller's webhook may record the charge of a migration's
// target.
func TestTargetChargesAreRefused(t *testing.T) {
	p := startEnforced(t)
	r := &v1alpha1.MigrationReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "uid-1"},
		Spec: v1alpha1.MigrationReservationSpec{
			Migration: v1alpha1.Reference{Name: "migration"}, VMI: v1alpha1.Reference{Name: "vm"},
			From: v1alpha1.Estimated,
			Pods: []v1alpha1.ReservedPod{{Role: v1alpha1.RoleLauncher,
				Charge: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}},
		},
	}
	eventually(t, "the CRD to be served", func() error { return p.admin.Create(t.Context(), r) })
	eventually(t, "the policy for reservations", func() error {
		return checkRefusedBy("mooring-quota-annotations",
			annotate(t, p.plain, r, quota.TargetAnnotation, "{}"))
	})
	wantRefused(t, "set", annotate(t, p.plain, r, quota.TargetAnnotation, "{}"),
		"plain may not change "+quota.TargetAnnotation, "quotaannotations.mooring.dev")
	wantRefused(t, "by a user with the right to annotate pods",
		annotate(t, p.annotator, r, quota.TargetAnnotation, "{}"), quota.TargetAnnotation)
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
