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
	// Forwards are the ports of Options.Forwards.
	Forwards []Forward
	process  *process
	console  *os.File
}

// Options of Boot. Only Store is required.
type Options struct {
	CPUs      int // default 2
	MemoryMiB int // default 6144; QEMU takes memory as the guest touches it
	// Timeout bounds the boot: 10 minutes. A quiet machine needs 10 seconds under TCG.
	Timeout time.Duration
	// Accelerator skips the probe for KVM.
	Accelerator Accelerator
	// Forwards are ports of the node that get a port of 127.0.0.1; see VM.Forwards.
	Forwards []int
	// Link is the node's end of a cable to another node, or nil.
	Link *Link
	// Saving is for a node to be saved, or for a saved one. Keys is then the directory of SaveKeys.
	Saving *Saving
	Keys   string
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

// config describes the guest without its ports and keys, which each boot chooses.
func (o Options) config(img *image.Image) Config {
	return Config{
		Kernel: img.Kernel, Disk: img.Disk, QEMU: img.QEMU, CPUs: o.CPUs, MemoryMiB: o.MemoryMiB,
		Accelerator: o.Accelerator, Link: o.Link, Saving: o.Saving,
	}
}

// CommandLine returns the command of QEMU without ports and keys. Nodes with equal commands can
// resume each other's saved state.
func CommandLine(img *image.Image, o Options) []string {
	c := o.withDefaults().config(img)
	return append(c.program(), c.args()...)
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
	v := &VM{Dir: dir}
	if err := v.keys(o); err != nil {
		return nil, err
	}
	c := o.config(img)
	c.AuthorizedKey = base64.StdEncoding.EncodeToString(v.Target.Key.PublicKey().Marshal())
	if c.Saving != nil {
		c.Saving.control = filepath.Join(dir, controlSocket)
	}
	var err error
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

// keys makes the key of the command channel, or takes the keys of a saved node.
func (v *VM) keys(o Options) (err error) {
	if o.Saving != nil && o.Saving.State != "" {
		return v.loadKeys(o.Keys)
	}
	v.Target.Key, err = channel.NewKey(filepath.Join(v.Dir, keyFile))
	return err
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
	if err := v.choosePorts(&c, o); err != nil {
		return err
	}
	o.Log.Info(c.verb()+" the node", "accelerator", c.Accelerator.String())
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
	if err := v.wait(ctx, c, ready); err != nil {
		v.Stop()
		return fmt.Errorf("booting the node: %w", err)
	}
	return nil
}

func (v *VM) choosePorts(c *Config, o Options) (err error) {
	if c.Port, err = freePort(); err != nil {
		return err
	}
	c.Forwards = nil
	for _, port := range o.Forwards {
		local, err := freePort()
		if err != nil {
			return err
		}
		c.Forwards = append(c.Forwards, Forward{Local: local, Node: port})
	}
	v.Forwards = c.Forwards
	return nil
}

func (c Config) verb() string {
	if c.resumes() {
		return "resuming"
	}
	return "booting"
}

func (c Config) resumes() bool { return c.Saving != nil && c.Saving.State != "" }

func (v *VM) wait(ctx context.Context, c Config, ready <-chan string) error {
	if c.resumes() {
		return v.awaitResumed(ctx)
	}
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
