package decide_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// pod holds the fields of a documented example.
type pod struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Name      string `json:"name"`
			Resources struct {
				Limits struct {
					Memory string `json:"memory"`
				} `json:"limits"`
			} `json:"resources"`
		} `json:"containers"`
	} `json:"spec"`
}

var lockLine = regexp.MustCompile(`^# memory lock: (\S+)\n`)

// The first line of every example names its memory lock.
func TestAnnotationExamples(t *testing.T) {
	var blocks [][]string
	for _, page := range []string{"annotations.md", "cgroup-files.md"} {
		text, err := os.ReadFile(filepath.Join("..", "docs", "reference", page))
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, yamlBlock.FindAllStringSubmatch(string(text), -1)...)
	}
	if len(blocks) < 5 {
		t.Fatalf("found %d examples", len(blocks))
	}
	for _, block := range blocks {
		says := lockLine.FindStringSubmatch(block[1])
		if says == nil {
			t.Errorf("does not say what is locked:\n%s", block[1])
			continue
		}
		var p pod
		if err := yaml.Unmarshal([]byte(block[1]), &p); err != nil {
			t.Errorf("%v:\n%s", err, block[1])
			continue
		}
		if got := lockOf(t, p); got != says[1] {
			t.Errorf("says that it locks %s, and locks %s:\n%s", says[1], got, block[1])
		}
	}
}

// anything is a policy with as few bounds as possible.
const anything = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
lifecycle: {libvirt: {}}
rules:
- {name: anything, namespaces: ["*"], domains: ["*"], memlock: {max: 1Ti, unlimited: true}, cgroupFiles: [memory.high, memory.swap.max, io.max, pids.max, hugetlb.2MB.max]}
`

// lockOf returns the memory lock of an example.
func lockOf(t *testing.T, example pod) string {
	t.Helper()
	name, ok, err := api.Launcher(example.Metadata.Annotations)
	if err != nil || !ok || len(example.Spec.Containers) != 1 ||
		example.Spec.Containers[0].Name != name {
		t.Errorf("launcher %q, %v, %v of %+v", name, ok, err, example)
		return ""
	}
	rules, err := policy.Parse([]byte(anything))
	if err != nil {
		t.Fatal(err)
	}
	f := decide.Facts{Container: name, Annotations: example.Metadata.Annotations}
	if limit := example.Spec.Containers[0].Resources.Limits.Memory; limit != "" {
		b, err := api.ParseBytes(limit)
		if err != nil {
			t.Error(err)
		}
		f.MemoryLimit = int64(b)
	}
	d := decide.Container(rules, f)
	switch {
	case d.Refusal != nil:
		return d.Refusal.Message
	case d.Memlock == nil:
		return "none"
	}
	return d.Memlock.String()
}
