// Package vm boots an image as the throw-away node and keeps it running.
package vm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// ConsoleFile is the name of the console log in the node's directory.
const ConsoleFile = "console.log"

const keyFile = "key"

// VM is a running node.
type VM struct {
	// Target is the address and key of the command channel.
	Target channel.Target
	// Dir is the directory with the key, the console log and the state.
	Dir string
	// Accelerator is the node's accelerator.
	Accelerator Accelerator
	process     *process
	console     *os.File
}

// Options of Boot. Only Store is required.
type Options struct {
	CPUs      int // default 2
	MemoryMiB int // default 6144; QEMU takes memory as the guest touches it
	// Timeout bounds the boot: 10 minutes. A quiet machine needs 10 seconds under TCG.
	Timeout time.Duration
	// Accelerator skips the probe for KVM.
	Accelerator Accelerator
	// Store keeps the verdict of the probe.
	Store *cache.Store
	Log   *slog.Logger
}

func (o Options) withDefaults() Options {
	o.CPUs = orDefault(o.CPUs, 2)
	o.MemoryMiB = orDefault(o.MemoryMiB, 6144)
	o.Timeout = orDefault(o.Timeout, 10*time.Minute)
	o.Log = orDefault(o.Log, slog.New(slog.DiscardHandler))
	return o
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Boot starts the image in dir and returns when its command channel answers. The node ends with
// Stop, and at the latest with this process. If it fails under KVM, Boot tries TCG, and uses no KVM
// until the next boot of this machine. The console log of a failed boot stays in dir.
func Boot(ctx context.Context, img *image.Image, dir string, o Options) (*VM, error) {
	o = o.withDefaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the node's directory: %w", err)
	}
	key, err := channel.NewKey(filepath.Join(dir, keyFile))
	if err != nil {
		return nil, err
	}
	c := Config{
		Kernel: img.Kernel, Disk: img.Disk, QEMU: img.QEMU, CPUs: o.CPUs, MemoryMiB: o.MemoryMiB,
		AuthorizedKey: base64.StdEncoding.EncodeToString(key.PublicKey().Marshal()),
		Accelerator:   o.Accelerator,
	}
	v := &VM{Dir: dir, Target: channel.Target{Key: key}}
	if c.Accelerator != "" {
		return vmUnlessError(v, v.boot(ctx, c, o))
	}
	if c.Accelerator, err = Probe(ctx, o.Store, c); err != nil {
		return nil, err
	}
	err = v.boot(ctx, c, o)
	if err != nil && c.Accelerator == KVM && ctx.Err() == nil {
		o.Log.Warn("booting under KVM failed: using TCG until the next boot of this machine",
			"error", err, "record_error", recordKVMFailure(o.Store, c))
		c.Accelerator = TCG
		err = v.boot(ctx, c, o)
	}
	return vmUnlessError(v, err)
}

// vmUnlessError returns v, or nil with an error.
func vmUnlessError(v *VM, err error) (*VM, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

// recordKVMFailure makes later probes return TCG until the next boot of this machine.
func recordKVMFailure(store *cache.Store, c Config) error {
	known, err := verdictOf(store, c)
	if err != nil {
		return err
	}
	return known.write(TCG)
}

// bootAttempts bounds the attempts to find a port. Another process can take a port before QEMU.
const bootAttempts = 3

func (v *VM) boot(ctx context.Context, c Config, o Options) error {
	for attempt := 1; ; attempt++ {
		err := v.bootOnce(ctx, c, o)
		if err == nil || attempt == bootAttempts || !portTaken(err) {
			return err
		}
		o.Log.Warn("another process took the node's port, trying another one", "error", err)
	}
}

// portTaken recognises QEMU's error message.
func portTaken(err error) bool {
	return strings.Contains(err.Error(), "Could not set up host forwarding rule")
}

func (v *VM) bootOnce(ctx context.Context, c Config, o Options) error {
	late := fmt.Errorf("the node was not ready after %v", o.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, o.Timeout, late)
	defer cancel()
	console, err := os.Create(filepath.Join(v.Dir, ConsoleFile))
	if err != nil {
		return fmt.Errorf("making the console log: %w", err)
	}
	c.Console = console
	if c.Port, err = freePort(); err != nil {
		return err
	}
	o.Log.Info("booting the node", "accelerator", c.Accelerator.String())
	ready := make(chan string, 1)
	v.process, err = start(c, c.args(), func(line string) {
		if key, ok := channel.ParseReady(line); ok {
			select {
			case ready <- key:
			default:
			}
		}
	})
	if err != nil {
		return errors.Join(err, console.Close())
	}
	v.console, v.Accelerator = console, c.Accelerator
	v.Target.Address = fmt.Sprintf("127.0.0.1:%d", c.Port)
	if err := v.wait(ctx, ready); err != nil {
		v.Stop()
		return fmt.Errorf("booting the node: %w", err)
	}
	return nil
}

func (v *VM) wait(ctx context.Context, ready <-chan string) error {
	select {
	case v.Target.HostKey = <-ready:
		return nil
	case <-v.process.exited:
		return v.process.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Exited is closed when the node's QEMU has ended.
func (v *VM) Exited() <-chan struct{} { return v.process.exited }

// Pid is the pid of the node's QEMU.
func (v *VM) Pid() int { return v.process.cmd.Process.Pid }

// Failure returns the reason for the end of the node's QEMU, or nil while QEMU runs.
func (v *VM) Failure() error {
	select {
	case <-v.process.exited:
		return v.process.failure()
	default:
		return nil
	}
}

// Stop ends the node at once. Everything written to its disk is lost.
func (v *VM) Stop() {
	v.process.stop()
	_ = v.console.Close()
}

// freePort asks the kernel for a free port. If another process takes it before QEMU, QEMU fails
// (see portTaken).
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
