package module

import (
	"context"
	"log/slog"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// Programs are programs in one binary, which the module "components" below a
// package makes. They are kept in the user's cache.
type Programs struct {
	Package string   // of Mooring
	Cache   string   // name of the cache's entries
	Names   []string // that the binary is called by
	Takes   string   // what is built, and how long it takes, for the log

	// Make builds into an empty folder.
	Make func(ctx context.Context, components Module, dir string) error
}

// Build returns the folder with the programs, which it makes if it is not cached.
// That takes minutes, in which log hears of it. The working directory must be in
// a checkout of Mooring.
func (p Programs) Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	components, err := Find(ctx, p.Package, "components")
	if err != nil {
		return nil, err
	}
	key, err := components.Key(p.Names...)
	if err != nil {
		return nil, err
	}
	return store.LogTo(log).Get(ctx, p.Cache, key, func(ctx context.Context, dir string) error {
		log.Info("building " + p.Takes)
		return p.Make(ctx, components, dir)
	})
}
