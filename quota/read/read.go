// Package read reads the objects for quota decisions from an API server or a cache.
package read

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List lists objects. Its error names their kind.
func List(
	ctx context.Context, from client.Reader, to client.ObjectList, options ...client.ListOption,
) error {
	if err := from.List(ctx, to, options...); err != nil {
		return fmt.Errorf("reading a %T: %w", to, err)
	}
	return nil
}

// Pointers returns pointers to the items of a list, without a copy.
func Pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
