// Package kubevirtnode is a cluster with the real KubeVirt: a control plane, virt-api and
// virt-controller on this machine, and a throw-away node with kubelet, virt-handler and VMs.
package kubevirtnode

import (
	"context"
	"log/slog"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// builder makes the parts of a node for KubeVirt.
type builder struct {
	store  *cache.Store
	debian *image.Builder
	log    *slog.Logger
}

func newBuilder(log *slog.Logger) (*builder, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	source, err := throwaway.SourceRoot()
	if err != nil {
		return nil, err
	}
	store = store.LogTo(log)
	return &builder{store: store, debian: image.NewBuilder(store, source, log), log: log}, nil
}

// Build makes the programs and images of KubeVirt for nodes, or finds them in the cache. The
// working directory must be in a checkout of Mooring.
func Build(ctx context.Context, log *slog.Logger) error {
	b, err := newBuilder(log)
	if err != nil {
		return err
	}
	entry, err := buildImage(ctx, b)
	if err != nil {
		return err
	}
	return entry.Close()
}
