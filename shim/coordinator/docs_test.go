package coordinator_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
)

// The example pod requests a size within its limits, and names a native sidecar.
func TestExample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "resize.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var pod struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			InitContainers []struct{ Name, RestartPolicy string }
		}
	}
	if err := yaml.Unmarshal(text, &pod); err != nil {
		t.Fatal(err)
	}
	request, err := api.Parse(pod.Metadata.Annotations, "compute")
	if want := (api.Size{VCPUs: 2, Memory: 4 << 30}); request.Size != want || err != nil {
		t.Errorf("%+v, %v, want %+v", request.Size, err, want)
	}
	name, ok, err := api.Sidecar(pod.Metadata.Annotations)
	if first := pod.Spec.InitContainers[0]; !ok || err != nil || first.Name != name ||
		first.RestartPolicy != "Always" {
		t.Errorf("sidecar %q, %v, and container %+v", name, err, first)
	}
}
