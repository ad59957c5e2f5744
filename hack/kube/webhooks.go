package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ServeAt has the webhooks of a webhook configuration called at a URL, such as
// https://localhost:9443, instead of by their Services, which a control plane without
// nodes does not have.
func ServeAt(url string, configuration *unstructured.Unstructured) error {
	hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil || len(hooks) == 0 {
		return fmt.Errorf("%s %s: no webhooks: %w", configuration.GetKind(), configuration.GetName(), err)
	}
	for _, hook := range hooks {
		object, ok := hook.(map[string]any)
		if !ok {
			return fmt.Errorf("%s %s: %v is no webhook", configuration.GetKind(), configuration.GetName(), hook)
		}
		path, _, err := unstructured.NestedString(object, "clientConfig", "service", "path")
		if err != nil || path == "" {
			return fmt.Errorf("webhook %v: no path of a Service: %w", object["name"], err)
		}
		object["clientConfig"] = map[string]any{"url": url + path}
	}
	return unstructured.SetNestedSlice(configuration.Object, hooks, "webhooks")
}
