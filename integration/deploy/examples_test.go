package deploy

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
)

// TestExamplesApply applies every example like `kubectl apply --server-side --dry-run=server`, with
// KubeVirt's admission webhooks, which have no feature gate. It replaces the examples' namespace by
// the test's.
func TestExamplesApply(t *testing.T) {
	c := startKubeVirt(t)
	namespace := c.Namespace(t, nil)
	admin := client.WithFieldValidation(c.Client, metav1.FieldValidationStrict)
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		objects, err := kube.Decode(strings.NewReader(read(t, file)))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			switch o.GetKind() {
			case "NodePolicy": // a file on the node, not an object of the cluster
				continue
			case "Namespace":
				o.SetName(namespace)
			default:
				o.SetNamespace(namespace)
			}
			applied := client.ApplyConfigurationFromUnstructured(o)
			what := fmt.Sprintf("%s: %s %s to be accepted", file, o.GetKind(), o.GetName())
			eventually(t, what, func() error {
				err := admin.Apply(t.Context(), applied, client.DryRunAll,
					client.FieldOwner("examples"), client.ForceOwnership)
				if lacksInstance(o, err) {
					return nil
				}
				return err
			})
		}
	}
}

// lacksInstance reports whether KubeVirt refuses a migration only because its VM does not run.
func lacksInstance(o *unstructured.Unstructured, err error) bool {
	return o.GetKind() == "VirtualMachineInstanceMigration" && err != nil &&
		strings.HasSuffix(err.Error(), fmt.Sprintf("the VMI %q does not exist",
			o.GetNamespace()+"/vm"))
}
