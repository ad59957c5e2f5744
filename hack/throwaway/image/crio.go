package image

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// crioPrefix begins the name of a CRI-O in Spec.Containerd. Its node runs CRI-O with containerd's
// unit name and socket.
const crioPrefix = "cri-o-"

func (s Spec) isCRIO() bool { return strings.HasPrefix(s.Containerd, crioPrefix) }

// crioTags exclude code that needs C libraries.
const crioTags = "containers_image_openpgp exclude_graphdriver_btrfs exclude_disk_quota " +
	"libdm_no_deviceselinux"

// crio builds CRI-O and pinns, its helper in C, into dir.
func (b *Builder) crio(ctx context.Context, module, dir string) error {
	if err := b.goBuild(ctx, module, dir+"/", "-tags="+crioTags, "tool"); err != nil {
		return err
	}
	var source bytes.Buffer
	list := child.Isolated(ctx, "go", "list", "-m", "-f={{.Dir}}", "github.com/cri-o/cri-o")
	list.Dir, list.Stdout = module, &source
	if err := child.Run(list); err != nil {
		return fmt.Errorf("looking for the source of pinns: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(source.String()), "pinns",
		"src", "*.c"))
	if err != nil {
		return err
	}
	args := []string{"-static", "-std=c11", "-Os", `-DVERSION="1"`, "-o",
		filepath.Join(dir, "pinns")}
	return b.run(child.Isolated(ctx, "gcc", append(args, files...)...))
}
