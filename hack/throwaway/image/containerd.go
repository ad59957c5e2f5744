package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

const containerdName = "containerd"

// Containerd returns the directory with containerd, its shim and ctr of the tests' node.
func (b *Builder) Containerd(ctx context.Context) (*cache.Entry, error) {
	return b.containerd(ctx, DefaultSpec().Containerd)
}

// containerdDir is the directory of a containerd's module.
func (b *Builder) containerdDir(name string) string {
	return filepath.Join(b.source, "hack", "throwaway", "containerd", name)
}

func containerdBuilds() []string {
	return []string{"2.4.2", "2.4.2-nri0.12.5", crioPrefix + "1.34.0"}
}

// containerd builds the programs that a module pins: containerd, its shim and ctr, or CRI-O.
func (b *Builder) containerd(ctx context.Context, name string) (*cache.Entry, error) {
	module := b.containerdDir(name)
	mod, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("reading the module of containerd %s: %w", name, err)
	}
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("reading the module of containerd %s: %w", name, err)
	}
	key := cache.KeyOf(string(mod), string(sum), runtime.Version(), runtime.GOARCH)
	return b.store.Get(ctx, containerdName, key, func(ctx context.Context, dir string) error {
		b.log.Info("building containerd from its module, about two minutes", "containerd", name)
		build := b.containerdTools
		if (Spec{Containerd: name}).isCRIO() {
			build = b.crio
		}
		if err := build(ctx, module, dir); err != nil {
			return fmt.Errorf("building containerd %s: %w", name, err)
		}
		return nil
	})
}

func (b *Builder) containerdTools(ctx context.Context, module, dir string) error {
	return b.goBuild(ctx, module, dir+"/", "tool")
}

// goBuild builds a static program. It builds several if out ends in a slash.
func (b *Builder) goBuild(ctx context.Context, dir, out string, packages ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}, packages...)
	cmd := child.Isolated(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	return b.run(cmd)
}
