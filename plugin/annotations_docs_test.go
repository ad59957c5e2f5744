package memlock_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
)

// pod is what an example in the documentation is read as.
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

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	lockLine  = regexp.MustCompile(`^# memory lock: (\S+)\n`)
)

// Every example is a pod that says in its first line what it may lock.
func TestAnnotationExamples(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "annotations.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := yamlBlock.FindAllStringSubmatch(string(text), -1)
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

// lockOf returns the memory lock of an example.
func lockOf(t *testing.T, p pod) string {
	t.Helper()
	name, ok, err := api.Launcher(p.Metadata.Annotations)
	if err != nil || !ok || len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Name != name {
		t.Errorf("launcher %q, %v, %v of %+v", name, ok, err, p)
		return ""
	}
	in := memlock.Input{}
	if limit := p.Spec.Containers[0].Resources.Limits.Memory; limit != "" {
		b, err := api.ParseBytes(limit)
		if err != nil {
			t.Error(err)
		}
		in.ContainerMemoryLimit = int64(b)
	}
	if in.Request, err = api.Parse(p.Metadata.Annotations, name); err != nil {
		t.Error(err)
	}
	result, err := memlock.ForLauncher(in)
	switch {
	case err != nil:
		return err.Error()
	case !result.Required:
		return "none"
	}
	return api.Lockable{Bytes: result.Bytes, Unlimited: result.Unlimited}.String()
}
