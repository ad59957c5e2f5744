package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// Builder makes images. It is safe for concurrent use.
type Builder struct {
	store  *cache.Store
	source string // the checkout of Mooring
	log    *slog.Logger
}

// NewBuilder returns a builder with its cache in store. source is the root of a checkout of
// Mooring.
func NewBuilder(store *cache.Store, source string, log *slog.Logger) *Builder {
	return &Builder{store: store, source: source, log: log}
}

// keptDisks is the number of cached disks. Two allow alternating between two versions of the node.
const keptDisks = 2

// CacheNames are the names of the builder's cache entries.
func CacheNames() []string {
	return []string{diskName, extendedName, containerdName, RootfsName}
}

// Image is a kernel, a disk and a QEMU. Its files stay in place until Close.
type Image struct {
	// Kernel and Disk are the files to boot. QEMU must not write to the disk.
	Kernel, Disk string
	// QEMU is the root of the tree with the node's QEMU.
	QEMU string
	// Key changes whenever the content of the image does.
	Key     cache.Key
	entries []*cache.Entry
}

// Close allows the cache to remove the image's files.
func (i *Image) Close() error { return cache.CloseAll(i.entries...) }

// Build returns the image for spec. It builds the parts missing in the cache, which takes up to
// three minutes on two cores and needs root.
func (b *Builder) Build(ctx context.Context, spec Spec) (*Image, error) {
	return b.BuildWith(ctx, spec, nil)
}

// BuildWith is Build with additions to the node's disk, unless they are nil.
func (b *Builder) BuildWith(
	ctx context.Context, spec Spec, more *Additions,
) (_ *Image, err error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("this machine is %s: the node consists of amd64 packages",
			runtime.GOARCH)
	}
	if err := checkPrograms(spec); err != nil {
		return nil, err
	}
	p, err := b.parts(ctx, spec)
	image := &Image{entries: p.entries()}
	defer func() {
		if err != nil {
			err = errors.Join(err, image.Close())
		}
	}()
	if err != nil {
		return nil, err
	}
	disk, key, err := b.disk(ctx, spec, p, more)
	if err != nil {
		return nil, err
	}
	image.entries = append(image.entries, disk)
	if _, err := b.store.Prune(more.cacheName(), more.kept()); err != nil {
		return nil, fmt.Errorf("removing old disks: %w", err)
	}
	image.Key = key
	image.Kernel = filepath.Join(p.rootfs.Dir, kernelFile)
	image.Disk = filepath.Join(disk.Dir, diskFile)
	image.QEMU = filepath.Join(p.outer.Dir, treeDir)
	return image, nil
}

// parts are the inputs of a disk.
type parts struct {
	rootfs, outer, containerd *cache.Entry
	agent                     []byte
}

func (p parts) entries() []*cache.Entry {
	return []*cache.Entry{p.rootfs, p.outer, p.containerd}
}

// parts builds all parts at once: one waits for the network while another compiles.
func (b *Builder) parts(ctx context.Context, spec Spec) (parts, error) {
	var p parts
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		p.rootfs, err = b.rootfs(ctx, spec)
		return err
	})
	g.Go(func() (err error) {
		p.outer, err = b.Outer(ctx)
		return err
	})
	g.Go(func() (err error) {
		if spec.Containerd != DistributionContainerd {
			p.containerd, err = b.containerd(ctx, spec.Containerd)
		}
		return err
	})
	g.Go(func() (err error) {
		p.agent, err = b.agent(ctx)
		return err
	})
	err := g.Wait() // before p is copied
	return p, err
}

func (b *Builder) agent(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "mooring-node-agent-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "node-agent")
	if err := b.goBuild(ctx, b.source, out, "./hack/throwaway/cmd/node-agent"); err != nil {
		return nil, fmt.Errorf("building the node's command channel: %w", err)
	}
	return os.ReadFile(out)
}

// run runs a command. Its output becomes part of the error.
func (b *Builder) run(cmd *exec.Cmd) error { return run(cmd) }

func run(cmd *exec.Cmd) error {
	_, err := output(cmd)
	return err
}

// output is run, and returns the output.
func output(cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := child.Run(cmd); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, tail(out.String(), 30))
	}
	return out.String(), nil
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// checkRoot returns an error unless this process is root. A root file system has owners and
// devices, and only root can create them.
func checkRoot(part string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	return fmt.Errorf("%s is not in the cache yet, and making it needs root: run this command "+
		"as root",
		part)
}

// ErrPrograms reports programs for the build of a node that this machine lacks.
var ErrPrograms = errors.New("programs missing on this machine")

// checkPrograms returns an error with the names of all missing programs.
func checkPrograms(spec Spec) error {
	var missing []string
	programs := []string{"go", "mmdebstrap", "mke2fs", "cp"}
	if spec.isCRIO() {
		programs = append(programs, "gcc")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s; on Debian and Ubuntu `hack/setup node test` installs them",
			ErrPrograms, strings.Join(missing, ", "))
	}
	return nil
}
