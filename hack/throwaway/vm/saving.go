package vm

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// Saving describes a node that QEMU can save and resume. Its disk is a virtio one, because QEMU
// cannot save an NVMe device, and it has no IOMMU.
type Saving struct {
	// Initramfs is a file with the driver of the disk, which is a module.
	Initramfs string
	// Writable is true for a node that changes its disk, in order to be saved with it.
	Writable bool
	// State is the file with a saved node to resume. If it is empty, the node boots.
	State string
	// control is the path of QEMU's control socket.
	control string
}

// controlSocket is the name of QEMU's control socket in the node's directory.
const controlSocket = "qmp"

func (c Config) rootDevice() string {
	if c.Saving != nil {
		return "/dev/vda"
	}
	return "/dev/nvme0n1"
}

func (c Config) savableDevices() []string {
	drive := c.drive()
	if !c.Saving.Writable {
		drive += ",snapshot=on"
	}
	args := []string{
		"-initrd", c.Saving.Initramfs,
		"-drive", drive, "-device", "virtio-blk-pci,drive=root",
		"-qmp", "unix:" + escape(c.Saving.control) + ",server=on,wait=off",
	}
	if c.Saving.State != "" {
		args = append(args, "-incoming", "file:"+escape(c.Saving.State))
	}
	return args
}

// resumeTimeout bounds the reading of a saved state, some gigabytes, on a busy machine.
const resumeTimeout = 5 * time.Minute

// awaitResumed continues a node when QEMU has read its state. It was stopped before it was saved.
func (v *VM) awaitResumed(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, resumeTimeout,
		fmt.Errorf("not resumed after %v", resumeTimeout))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() { // QEMU may end instead: another process has its port, or the state does not fit
		select {
		case <-v.process.exited:
			end(v.process.failure())
		case <-ctx.Done():
		}
	}()
	q, err := dialControl(ctx, filepath.Join(v.Dir, controlSocket))
	if err != nil {
		return err
	}
	defer q.Close()
	for {
		var status struct{ Status string }
		if err := q.execute(ctx, "query-status", nil, &status); err != nil {
			return err
		}
		switch status.Status {
		case "running":
			return nil
		case "paused":
			if err := q.execute(ctx, "cont", nil, nil); err != nil {
				return err
			}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// SaveState stops the node for good and writes the state of its memory and devices to a new file. It
// belongs to the content that the disk has then.
func (v *VM) SaveState(ctx context.Context, file string, log *slog.Logger) error {
	q, err := dialControl(ctx, filepath.Join(v.Dir, controlSocket))
	if err != nil {
		return err
	}
	defer q.Close()
	log.Info("saving the node")
	for _, step := range []struct {
		name string
		args map[string]any
	}{
		{"stop", nil},
		{"migrate-set-parameters", map[string]any{"max-bandwidth": int64(10) << 30}},
		{"migrate", map[string]any{"uri": "file:" + file}},
	} {
		if err := q.execute(ctx, step.name, step.args, nil); err != nil {
			return err
		}
	}
	for {
		var now struct {
			Status    string
			ErrorDesc string `json:"error-desc"`
		}
		if err := q.execute(ctx, "query-migrate", nil, &now); err != nil {
			return err
		}
		switch now.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("saving the node: %s %s", now.Status, now.ErrorDesc)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

// hostKeyFile and keyFile, beside a saved state, belong to its command channel.
const hostKeyFile = "host-key"

// SaveKeys writes the keys of the node's command channel into a directory, for Options.Keys.
func (v *VM) SaveKeys(dir string) error {
	key, err := os.ReadFile(filepath.Join(v.Dir, keyFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), key, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, hostKeyFile), []byte(v.Target.HostKey), 0o600)
}

// loadKeys copies the keys of SaveKeys into the node's directory.
func (v *VM) loadKeys(dir string) error {
	key, err := os.ReadFile(filepath.Join(dir, keyFile))
	if err != nil {
		return fmt.Errorf("reading the key of a saved node: %w", err)
	}
	if err := os.WriteFile(filepath.Join(v.Dir, keyFile), key, 0o600); err != nil {
		return err
	}
	host, err := os.ReadFile(filepath.Join(dir, hostKeyFile))
	if err != nil {
		return fmt.Errorf("reading the host key of a saved node: %w", err)
	}
	v.Target.HostKey = string(host)
	v.Target.Key, err = channel.LoadKey(filepath.Join(v.Dir, keyFile))
	return err
}
