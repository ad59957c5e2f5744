// Package examples tests the files of this folder and the pages that show them.
package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/cli/explain"
	"github.com/mooring-vm/mooring/shim/headroom"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents returns the YAML documents of a file as "Kind" and text.
func documents(t *testing.T, path string) (all []struct{ kind, text string }) {
	t.Helper()
	for text := range strings.SplitSeq(read(t, path), "\n---\n") {
		var of struct{ Kind string }
		if err := yaml.Unmarshal([]byte(text), &of); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, struct{ kind, text string }{of.Kind, text})
	}
	return all
}

// TestObjects decodes every object as strictly as the API server and asks the policy about pods.
func TestObjects(t *testing.T) {
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		for _, d := range documents(t, file) {
			switch d.kind {
			case "NodePolicy":
				if _, err := policy.Parse([]byte(d.text)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			case "Pod":
				checkPod(t, file, d.text)
			case "Namespace":
				decode(t, file, d.text, &corev1.Namespace{})
			case "ResourceQuota":
				decode(t, file, d.text, &corev1.ResourceQuota{})
			case "VirtualMachineInstance":
				decode(t, file, d.text, &kubevirtv1.VirtualMachineInstance{})
			case "VirtualMachineInstanceMigration":
				decode(t, file, d.text, &kubevirtv1.VirtualMachineInstanceMigration{})
			case "VirtualMachine":
				decode(t, file, d.text, &kubevirtv1.VirtualMachine{})
			default:
				t.Errorf("%s: kind %q has no test", file, d.kind)
			}
		}
	}
}

func decode(t *testing.T, file, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Errorf("%s: %v", file, err)
	}
}

// checkPod wants a launcher with all its settings granted by the example policy.
func checkPod(t *testing.T, file, text string) {
	t.Helper()
	pod, err := explain.ParsePod([]byte(text))
	if err != nil {
		t.Errorf("%s: %v", file, err)
		return
	}
	p, err := policy.Load("node-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	node := explain.Node{Memory: 64 << 30, Controllers: []string{"cpu", "io", "memory", "pids"}}
	e := explain.Explain(p, pod, node)
	launcher := slices.IndexFunc(e.Containers, func(c explain.Container) bool { return c.Launcher })
	if e.Refused || launcher < 0 || e.Containers[launcher].Outcome != explain.Given {
		t.Errorf("%s: %+v", file, e)
	}
}

// TestDomain prepares the domain as docs/how-to/headroom.md does.
func TestDomain(t *testing.T) {
	o := headroom.Options{Memory: 16384, CPUs: 8, Slots: headroom.DefaultSlots}
	got, err := headroom.Prepare([]byte(read(t, "domain.xml")), o)
	if err != nil || !got.Changed {
		t.Errorf("%+v, %v", got, err)
	}
}

// shown matches an example in a page. The comment before the block names the file.
var shown = regexp.MustCompile("(?ms)^<!-- examples/(\\S+) -->\n```[a-z]+\n(.*?)^```$")

// TestPages compares the examples in pages with the files of this folder.
func TestPages(t *testing.T) {
	found := 0
	docs := filepath.Join("..", "docs")
	err := filepath.WalkDir(docs, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		for _, block := range shown.FindAllStringSubmatch(read(t, path), -1) {
			found++
			if diff := cmp.Diff(read(t, block[1]), block[2]); diff != "" {
				t.Errorf("%s shows another examples/%s (-file +page):\n%s", path, block[1], diff)
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d examples shown, %v", found, err)
	}
}

// TestIndex wants each example in README.md.
func TestIndex(t *testing.T) {
	index := read(t, "README.md")
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		ext := filepath.Ext(f.Name())
		if ext != ".go" && ext != ".md" && !strings.Contains(index, "\n| `"+f.Name()+"` | ") {
			t.Errorf("README.md has no row for %s", f.Name())
		}
	}
}
