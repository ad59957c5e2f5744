package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

// TestControllerRightsAreBound gives the controller's account all rights on namespaces and pods.
// The policies leave its own keys of namespaces, and dry runs of pods.
func TestControllerRightsAreBound(t *testing.T) {
	p := startEnforced(t)
	const user = "system:serviceaccount:" + system + ":mooring-controller"
	for _, role := range []string{"everything-" + p.namespace, "mooring-namespace-annotations"} {
		p.bind(t, user, role)
	}
	own := p.as(t, user, rest.NoWarnings{})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	patch := func(by client.Client, metadata string) error {
		return by.Patch(t.Context(), ns.DeepCopy(), client.RawPatch(types.MergePatchType,
			[]byte(`{"metadata": `+metadata+`}`)))
	}
	const namespaces, probes = "mooring-controller-namespaces", "mooring-controller-probes"
	foreign := `{"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}`
	eventually(t, "the policies", func() error {
		if err := checkRefusedBy(namespaces, patch(own, foreign)); err != nil {
			return err
		}
		return checkRefusedBy(probes, own.Create(t.Context(), quota.Probe(p.namespace)))
	})
	for what, metadata := range map[string]string{
		"another annotation":    `{"annotations": {"example.com/a": "b"}}`,
		"the maintenance share": `{"annotations": {"` + quota.MaintenanceAnnotation + `": "{}"}}`,
		"a finalizer":           `{"finalizers": ["example.com/a"]}`,
		"an owner": `{"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", ` +
			`"uid": "a"}]}`,
	} {
		if err := checkRefusedBy(namespaces, patch(own, metadata)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, metadata := range map[string]string{
		"its label":             `{"labels": {"` + quota.ReservedLabel + `": "true"}}`,
		"no label":              `{"labels": {"` + quota.ReservedLabel + `": null}}`,
		"its annotation":        `{"annotations": {"harvesterhci.io/vmAvailable": "{}"}}`,
		"its second annotation": `{"annotations": {"harvesterhci.io/maintenanceAvailable": "{}"}}`,
	} {
		if err := patch(own, metadata); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := patch(p.admin, foreign); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	if err := own.Create(t.Context(), quota.Probe(p.namespace), client.DryRunAll); err != nil {
		t.Errorf("a dry run: %v", err)
	}
}
