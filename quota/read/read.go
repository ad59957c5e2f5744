// Package read reads what quotas are judged by from an API server, or from a cache.
package read

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List lists objects. The error says of which kind they are.
func List(ctx context.Context, from client.Reader, to client.ObjectList, options ...client.ListOption) error {
	if err := from.List(ctx, to, options...); err != nil {
		return fmt.Errorf("reading a %T: %w", to, err)
	}
	return nil
}

// Pointers are those to the items of a list, which are not copied.
func Pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
