package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWebhooksInDocs holds the page's table against webhooks.yaml, and against what becomes
// of that with Fail.
func TestWebhooksInDocs(t *testing.T) {
	byDefault := documented(t, read(t, "../../deploy/kubernetes/webhooks.yaml"))
	want := documented(t, render(t, "--set=webhooks.enabled=true,webhooks.failurePolicy=Fail"))
	for name, cells := range want {
		failure := byDefault[name][2]
		if cells[2] != failure {
			failure += " or " + cells[2]
		}
		want[name] = []string{byDefault[name][0], byDefault[name][1], failure}
	}
	got := map[string][]string{}
	for line := range strings.Lines(read(t, "../../docs/reference/webhooks.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if name := strings.Trim(cells[0], "`"); strings.HasSuffix(name, ".mooring.dev") && strings.HasPrefix(line, "|") {
			got[name] = cells[3:]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/webhooks.md: namespaces, objects and failure policies (-want +got):\n%s", diff)
	}
}

// documented are the cells of a manifest's webhooks: namespaces, objects and failure policy.
func documented(t *testing.T, manifest string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	objects := decode(t, manifest)
	for _, configuration := range configurations() {
		for _, hook := range webhooks(t, objects[configuration]) {
			all[hook["name"].(string)] = []string{excludedOf(t, hook), selectedBy(t, hook), code(hook["failurePolicy"].(string))}
		}
	}
	return all
}

func excludedOf(t *testing.T, hook map[string]any) string {
	t.Helper()
	expressions, _, err := unstructured.NestedSlice(hook, "namespaceSelector", "matchExpressions")
	if err != nil || len(expressions) != 1 {
		t.Fatalf("%s: namespaces %v, %v", hook["name"], expressions, err)
	}
	names, _, err := unstructured.NestedStringSlice(expressions[0].(map[string]any), "values")
	if err != nil || expressions[0].(map[string]any)["operator"] != "NotIn" {
		t.Fatalf("%s: namespaces %v, %v", hook["name"], expressions, err)
	}
	for i := range names {
		names[i] = code(names[i])
	}
	return "all but " + strings.Join(names, ", ")
}

func selectedBy(t *testing.T, hook map[string]any) string {
	t.Helper()
	labels, _, err := unstructured.NestedStringMap(hook, "objectSelector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, code(key+": "+labels[key]))
	}
	if len(all) == 0 {
		return "all"
	}
	return strings.Join(all, ", ")
}

func code(text string) string { return "`" + text + "`" }
