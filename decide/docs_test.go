package decide_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

var (
	yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	textBlock = regexp.MustCompile("(?ms)^```text\n(.*?)^```$")
)

func readDoc(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decideExample decides about the example pod by a shipped policy.
func decideExample(t *testing.T, file string) decide.Decision {
	t.Helper()
	p, err := policy.Load(filepath.Join("..", "deploy", "policy", file))
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(readDoc(t, "examples", "memory-lock.yaml")),
		&pod); err != nil {
		t.Fatal(err)
	}
	container := pod.Spec.Containers[0]
	return decide.Container(p, decide.Facts{
		Pod:         agentapi.PodRef{Namespace: pod.Namespace, Name: pod.Name},
		Container:   container.Name,
		Annotations: pod.Annotations,
		MemoryLimit: container.Resources.Limits.Memory().Value(),
	})
}

// The pages name the results that this test wants.
func TestExamplePod(t *testing.T) {
	d := decideExample(t, "enforce.yaml")
	if !d.Act() || d.Memlock == nil || *d.Memlock != 5*gi {
		t.Errorf("decision %+v, want a memory lock of 5 GiB; refusal: %v", d, d.Refusal)
	}
	if len(d.Cgroup) != 1 || d.Cgroup[0].File != "memory.high" ||
		d.Cgroup[0].Value != "5905580032" {
		t.Errorf("cgroup settings %v, want 5.5 GiB of memory.high", d.Cgroup)
	}
}

// The page on an existing cluster quotes the Event of the example pod in mode observe.
func TestExamplePodObserved(t *testing.T) {
	remarks := decideExample(t, "observe.yaml").Remarks
	page := strings.Join(strings.Fields(readDoc(t, "docs", "get-started", "existing-cluster.md")),
		" ")
	if len(remarks) != 1 || remarks[0].Reason != agentapi.ReasonWouldSet ||
		!strings.Contains(page, remarks[0].Message) {
		t.Errorf("the page does not quote %+v", remarks)
	}
}

// Every refusal in the documentation is part of a real one.
func TestDocumentedRefusals(t *testing.T) {
	var messages []string
	for _, test := range refusalTests() {
		messages = append(messages, decide.Container(decidetest.Policy(t, policy.Enforce),
			test.facts).Refusal.Message)
	}
	strict, noLimit := decidetest.Policy(t, policy.Enforce), facts("trusted", decidetest.VFIO())
	strict.Memlock.RequireMemoryLimit, noLimit.MemoryLimit = true, 0
	messages = append(messages, decide.Container(strict, noLimit).Refusal.Message)
	_, rest, _ := strings.Cut(readDoc(t, "docs", "how-to", "troubleshoot-refused.md"),
		"\n## The agent refuses\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	blocks := textBlock.FindAllStringSubmatch(section, -1)
	if len(blocks) < 10 {
		t.Fatalf("found %d messages", len(blocks))
	}
	for _, block := range blocks {
		shown := strings.Join(strings.Fields(block[1]), " ") // the page wraps long lines
		if !slices.ContainsFunc(messages, func(m string) bool {
			return strings.Contains(m, shown)
		}) {
			t.Errorf("the documentation shows\n%s\nwhich is in none of\n%s", shown,
				strings.Join(messages, "\n"))
		}
	}
}
