package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWebhooksInDocs compares the page's table with install.yaml, and with the same webhooks under
// failure policy Fail.
func TestWebhooksInDocs(t *testing.T) {
	page := read(t, "../../docs/reference/webhooks.md")
	byDefault := documented(t, page, read(t, "../../deploy/kubernetes/install.yaml"))
	want := documented(t, page,
		render(t, append(enforce(), "--set=webhooks.failurePolicy=Fail")...))
	for name, cells := range want {
		failure := byDefault[name][1]
		if cells[1] != failure {
			failure += " or " + cells[1]
		}
		want[name] = []string{byDefault[name][0], failure}
	}
	_, table, _ := strings.Cut(page, "| Webhook | Objects | Failure policy |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	got := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if name := strings.Trim(cells[0], "`"); strings.HasSuffix(name, ".mooring.dev") {
			got[name] = cells[1:]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/reference/webhooks.md: objects and failure policies (-want +got):\n%s", diff)
	}
}

// documented returns objects and failure policy of a manifest's webhooks. The page lists the
// namespaces of all webhooks once.
func documented(t *testing.T, page, manifest string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	objects := decode(t, manifest)
	for _, configuration := range configurations() {
		for _, hook := range webhooks(t, objects[configuration]) {
			all[hook["name"].(string)] = []string{selectedBy(t, hook),
				code(hook["failurePolicy"].(string))}
			if namespaces := excludedOf(t, hook); !strings.Contains(page, namespaces) {
				t.Errorf("docs/reference/webhooks.md: %s covers %s", hook["name"], namespaces)
			}
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
		all = []string{"all"}
	}
	selected := strings.Join(all, ", ")
	if leftOut := leftOutLabels(t, hook); len(leftOut) > 0 {
		selected += " but " + strings.Join(leftOut, ", ")
	}
	return strings.ReplaceAll(selected, code("kubevirt.io: virt-launcher"), "launchers")
}

// leftOutLabels returns the labels of the objects that a webhook does not receive.
func leftOutLabels(t *testing.T, hook map[string]any) (all []string) {
	t.Helper()
	expressions, _, err := unstructured.NestedSlice(hook, "objectSelector", "matchExpressions")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range expressions {
		expression := e.(map[string]any)
		if expression["operator"] != "NotIn" {
			t.Fatalf("%s: objects %v", hook["name"], expression)
		}
		for _, value := range expression["values"].([]any) {
			all = append(all, code(fmt.Sprintf("%s: %s", expression["key"], value)))
		}
	}
	return all
}

func code(text string) string { return "`" + text + "`" }
