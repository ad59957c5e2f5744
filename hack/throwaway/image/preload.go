package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// preloadRecipe is part of the key of a disk with images. Change it when Preload changes.
const preloadRecipe = "2"

// preloadConfig configures a containerd that only imports images. The formatted arguments are its
// root, state and socket.
const preloadConfig = `version = 3
root = %q
state = %q
disabled_plugins = ["io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
	"io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri",
	"io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.blockfile"]
[grpc]
address = %q
`

// Preload imports an archive of images into the containerd of a tree, and unpacks them. A
// containerd of this machine does it, because unpacking in an emulated node takes minutes.
// containerd is the directory of an entry of Containerd.
func Preload(ctx context.Context, containerd, tree, images string) (err error) {
	temp, err := os.MkdirTemp("", "mooring-preload-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	root := filepath.Join(tree, "var/lib/containerd")
	socket, config := filepath.Join(temp, "c.sock"), filepath.Join(temp, "config.toml")
	text := fmt.Sprintf(preloadConfig, root, filepath.Join(temp, "state"), socket)
	if err := errors.Join(os.MkdirAll(root, 0o711),
		os.WriteFile(config, []byte(text), 0o600)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(temp, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	daemon := exec.Command(filepath.Join(containerd, "containerd"), "--config", config)
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	defer func() { err = errors.Join(err, end(daemon, log.Name(), err)) }()
	ctr := func(args ...string) (string, error) {
		return output(child.Isolated(ctx, filepath.Join(containerd, "ctr"),
			append([]string{"--address=" + socket, "--namespace=k8s.io"}, args...)...))
	}
	if err := awaitDaemon(ctx, ctr); err != nil {
		return err
	}
	if _, err := ctr("images", "import", "--label="+pinned, "--snapshotter=overlayfs",
		images); err != nil {
		return err
	}
	return addDigests(ctr)
}

// pinned is a label that keeps kubelet from removing an image.
const pinned = "io.cri-containerd.pinned=pinned"

// addDigests names the images by their digests as well, like pulled ones. KubeVirt's migration
// targets use these names.
func addDigests(ctr func(...string) (string, error)) error {
	table, err := ctr("images", "list")
	if err != nil {
		return err
	}
	for line := range strings.Lines(table) {
		columns := strings.Fields(line) // name, type, digest
		if len(columns) < 3 || !strings.HasPrefix(columns[2], "sha256:") ||
			strings.Contains(columns[0], "@") {
			continue
		}
		repository := columns[0][:strings.LastIndex(columns[0], ":")]
		if _, err := ctr("images", "tag", "--force", columns[0],
			repository+"@"+columns[2]); err != nil {
			return err
		}
	}
	return nil
}

// startTimeout bounds the start of containerd on a busy machine.
const startTimeout = time.Minute

func awaitDaemon(ctx context.Context, ctr func(...string) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := ctr("version")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd does not answer: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end ends the daemon. If something failed before, the error has its log.
func end(daemon *exec.Cmd, log string, failed error) error {
	_ = daemon.Process.Signal(unix.SIGTERM)
	err := daemon.Wait()
	if failed == nil {
		return err
	}
	text, _ := os.ReadFile(log)
	return fmt.Errorf("containerd's log:\n%s", text[max(0, len(text)-4096):])
}
