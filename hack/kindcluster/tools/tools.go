// Package tools builds kind and the network plugins of its nodes from their modules.
package tools

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/module"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

const (
	cacheName   = "kind-tools"
	packagePath = "github.com/mooring-vm/mooring/hack/kindcluster/tools"
	filesDir    = "files"
)

// Build compiles kind and the plugins into the user's cache, or finds them there. The working
// directory must be in a checkout of Mooring.
func Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	return module.Programs{
		Package: packagePath, Cache: cacheName, Make: build,
		Names:       []string{"kind", "ptp", "loopback", "host-local", "portmap"},
		Description: "kind and its network plugins from their modules, about a minute",
	}.Build(ctx, log)
}

func build(ctx context.Context, components module.Module, dir string) error {
	if err := components.BuildTools(ctx, dir); err != nil {
		return err
	}
	kind, err := components.Dir(ctx, "sigs.k8s.io/kind")
	if err != nil {
		return err
	}
	return os.CopyFS(filepath.Join(dir, filesDir),
		os.DirFS(filepath.Join(kind, "images", "base", "files")))
}

// Files is the directory with the files of kind's base image, in an entry of Build.
func Files(tools *cache.Entry) string { return filepath.Join(tools.Dir, filesDir) }

// Kind is the path of kind in an entry of Build.
func Kind(tools *cache.Entry) string { return filepath.Join(tools.Dir, "kind") }
