package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ServeAt makes the API server call the webhooks of a configuration at a URL, such as
// https://localhost:9443. Their Services do not exist in a control plane without nodes.
func ServeAt(url string, configuration *unstructured.Unstructured) error {
	hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || len(hooks) == 0 {
		return fmt.Errorf("%s %s: no webhooks: %w", configuration.GetKind(),
			configuration.GetName(), err)
	}
	for _, hook := range hooks {
		object, ok := hook.(map[string]any)
		if !ok {
			return fmt.Errorf("%s %s: %v is no webhook", configuration.GetKind(),
				configuration.GetName(), hook)
		}
		path, _, err := unstructured.NestedString(object, "clientConfig", "service", "path")
		if err != nil || path == "" {
			return fmt.Errorf("webhook %v: no path of a Service: %w", object["name"], err)
		}
		object["clientConfig"] = map[string]any{"url": url + path}
	}
	return unstructured.SetNestedSlice(configuration.Object, hooks, "webhooks")
}
