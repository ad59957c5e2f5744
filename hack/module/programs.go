package module

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// Programs are several programs, built from a module below a package and kept in the user's cache.
type Programs struct {
	Package     string   // path of a package of Mooring
	Module      string   // directory of the module below it; empty: "components"
	Cache       string   // name of the cache entries
	Names       []string // names of the binary
	Description string   // for the log: the programs, and the time of their build

	// Make builds the programs in an empty directory.
	Make func(ctx context.Context, components Module, dir string) error
}

// Build returns the directory with the programs. If it is not cached, Build makes it, which takes
// minutes, and log reports it. The working directory must be in a checkout of Mooring.
func (p Programs) Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	components, err := Find(ctx, p.Package, cmp.Or(p.Module, "components"))
	if err != nil {
		return nil, err
	}
	key, err := components.Key(p.Names...)
	if err != nil {
		return nil, err
	}
	return store.LogTo(log).Get(ctx, p.Cache, key, func(ctx context.Context, dir string) error {
		log.Info("building " + p.Description)
		return p.Make(ctx, components, dir)
	})
}
