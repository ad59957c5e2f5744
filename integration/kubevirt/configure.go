package kubevirttest

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// Configure merges patch, which is JSON, into the KubeVirt object until t ends. virt-api and
// virt-controller follow a moment later.
func (c *Cluster) Configure(t *testing.T, patch string) {
	t.Helper()
	object := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{
		Namespace: kubevirt.Namespace, Name: kubevirt.Name}}
	t.Cleanup(func() {
		undo := client.RawPatch("application/json-patch+json",
			[]byte(`[{"op": "replace", "path": "/spec/configuration", "value": {}}]`))
		if err := c.Client.Patch(context.WithoutCancel(t.Context()), object, undo); err != nil {
			t.Error(err)
		}
	})
	if err := c.Client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json",
		[]byte(patch))); err != nil {
		t.Fatal(err)
	}
}
