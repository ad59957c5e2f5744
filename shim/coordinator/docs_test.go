package coordinator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")

// The documented pod asks for a size that its limits allow, and its sidecar is one.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "resize.md"))
	if err != nil {
		t.Fatal(err)
	}
	var pod struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			InitContainers []struct{ Name, RestartPolicy string }
		}
	}
	if err := yaml.Unmarshal(yamlBlock.FindSubmatch(doc)[1], &pod); err != nil {
		t.Fatal(err)
	}
	request, err := api.Parse(pod.Metadata.Annotations, "compute")
	if err != nil || *request.VCPUs != 2 || *request.Memory != 4*gi || request.CPUQuota != nil {
		t.Errorf("%+v, %v", request, err)
	}
	name, ok, err := api.Sidecar(pod.Metadata.Annotations)
	if first := pod.Spec.InitContainers[0]; !ok || err != nil || first.Name != name || first.RestartPolicy != "Always" {
		t.Errorf("sidecar %q, %v, and container %+v", name, err, first)
	}
}
