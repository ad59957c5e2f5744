package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestServeAt(t *testing.T) {
	for name, tt := range map[string]struct{ manifest, want, fails string }{
		"by Service": {"webhooks: [{name: a, clientConfig: {service: {name: s, path: /a}}}]",
			"https://localhost:1/a", ""},
		"none": {"webhooks: []", "", "no webhooks"},
		"by URL": {"webhooks: [{name: a, clientConfig: {url: 'https://elsewhere'}}]", "",
			"webhook a: no path"},
		"no webhook": {"webhooks: [1]", "", "1 is no webhook"},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := Decode(
				strings.NewReader("kind: A\nmetadata: {name: b}\n" + tt.manifest))
			if err != nil {
				t.Fatal(err)
			}
			err = ServeAt("https://localhost:1", objects[0])
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("error %v, want %q", err, tt.fails)
				}
				return
			}
			hooks, _, _ := unstructured.NestedSlice(objects[0].Object, "webhooks")
			if got := hooks[0].(map[string]any)["clientConfig"].(map[string]any); err != nil ||
				got["url"] != tt.want || len(got) != 1 {
				t.Errorf("called by %v, want %s alone: %v", got, tt.want, err)
			}
		})
	}
}
