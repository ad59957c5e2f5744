package kube

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager of applied manifests.
const fieldOwner = client.FieldOwner("hack-kube")

// Apply creates or changes the objects of a manifest in their order, like `kubectl apply
// --server-side`, and returns them as read from the manifest. An unknown field is an error.
func (c *ControlPlane) Apply(
	ctx context.Context, manifest io.Reader,
) ([]*unstructured.Unstructured, error) {
	objects, err := Decode(manifest)
	if err != nil {
		return nil, err
	}
	admin, err := client.New(c.admin, client.Options{})
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		if err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()),
			fieldOwner, client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("applying %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return objects, nil
}

// Decode reads the objects of a manifest, in their order.
func Decode(manifest io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(manifest, 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objects, nil
		case err != nil:
			return nil, fmt.Errorf("reading the manifest: %w", err)
		case len(o.Object) > 0: // a document with only comments is empty
			objects = append(objects, o)
		}
	}
}
