// Package vmwait waits for the end of the pod's VM in the node's libvirt. So the launcher lives as
// long as its VM, and passes on the reason of its end.
//
// The agent publishes the state of the VM in a file of the pod's directory. The file stays while
// the agent or libvirt is away: a missing answer is no end.
package vmwait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/shim/prestop"
)

const (
	// DefaultStartTimeout is the default time for the start of the VM.
	DefaultStartTimeout = 5 * time.Minute

	// DefaultPoll is the interval between two reads of the file.
	DefaultPoll = 250 * time.Millisecond

	// reasonTimeout bounds the wait for the reason after a confirmed stop. It is longer than the
	// agent's own wait for libvirt.
	reasonTimeout = 30 * time.Second
)

// ErrNotFound means: the pod had no VM in the node's libvirt in time.
var ErrNotFound = errors.New("the agent has reported no VM of this pod")

// EndedError is the end of a VM other than by its guest.
type EndedError struct{ VM vmfile.VM }

// Error implements error.
func (e *EndedError) Error() string {
	return fmt.Sprintf("domain %s has ended: %s", e.VM.Domain, e.VM.Reason)
}

// Options set files and times. The zero value has the defaults.
type Options struct {
	File         string        // state of the VM; "": vmfile.Path
	StopFile     string        // stop requests; "": prestop.DefaultFile
	StartTimeout time.Duration // time for the start of the VM; 0: DefaultStartTimeout
	StopTimeout  time.Duration // time for the stop after ctx has ended; 0: no limit
	Poll         time.Duration // interval between two reads; 0: DefaultPoll
	Log          *slog.Logger  // unreadable states; nil: none
}

// Run waits for the VM to start and to end. It returns nil if the guest has powered off or has
// moved to another node, otherwise an [*EndedError].
//
// The end of ctx, such as SIGTERM, requests the stop of the VM as a preStop hook does. Run then
// waits until the agent confirms that no VM of the pod runs. After StopTimeout it returns
// [prestop.ErrTimeout]. It returns nil if there was no VM.
//
// Without a VM within StartTimeout the error is [ErrNotFound], without a pod directory
// [prestop.ErrNoDirectory].
func Run(ctx context.Context, o Options) error {
	o.File = cmp.Or(o.File, vmfile.Path)
	o.StopFile = cmp.Or(o.StopFile, prestop.DefaultFile)
	o.StartTimeout = cmp.Or(o.StartTimeout, DefaultStartTimeout)
	o.Poll = cmp.Or(o.Poll, DefaultPoll)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.StartTimeout < 0 || o.StopTimeout < 0 || o.Poll < 0 {
		return fmt.Errorf("run: start timeout %s, stop timeout %s, poll %s: want no negative duration",
			o.StartTimeout, o.StopTimeout, o.Poll)
	}
	if _, err := prestop.Requested(o.StopFile); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	vm, err := awaitEnd(ctx, o, vmfile.VM{})
	if ctx.Err() != nil && vm.State != vmfile.Ended {
		vm, err = stop(context.WithoutCancel(ctx), o, vm)
	}
	switch {
	case err != nil:
		return fmt.Errorf("run: %w", err)
	case vm.State != vmfile.Ended || vm.Reason.Orderly():
		return nil
	}
	return fmt.Errorf("run: %w", &EndedError{vm})
}

// awaitEnd waits until the VM has ended or ctx ends. An unreadable file is no end; the log has each
// new reason. last is the last known state of a VM that has started, if there is one, and so is
// the result when ctx ends.
func awaitEnd(ctx context.Context, o Options, last vmfile.VM) (vmfile.VM, error) {
	start := time.NewTimer(o.StartTimeout)
	defer start.Stop()
	ticker := time.NewTicker(o.Poll)
	defer ticker.Stop()
	logged := ""
	for {
		vm, err := read(o.File)
		if err != nil && err.Error() != logged {
			logged = err.Error()
			o.Log.Warn("the wait goes on without the state of the VM", "error", err)
		}
		if vm.State == vmfile.Ended {
			return vm, nil
		}
		if started(vm) {
			last = vm
		}
		select {
		case <-ctx.Done():
			return last, nil
		case <-start.C:
			if !started(last) {
				return last, notFound(o.StartTimeout, err)
			}
		case <-ticker.C:
		}
	}
}

// started reports whether a VM has started and its end is not explained yet.
func started(vm vmfile.VM) bool { return vm.State == vmfile.Running || vm.State == vmfile.Ending }

// notFound explains the absence of a VM. err is the error of the last read of the file.
func notFound(timeout time.Duration, err error) error {
	if err != nil {
		return fmt.Errorf("%w in the node's libvirt within %s: the pod needs the annotation "+
			"domain.lifecycle.mooring.dev, and the node a running agent: %w", ErrNotFound, timeout, err)
	}
	return fmt.Errorf("%w in the node's libvirt within %s: start the pod's domain", ErrNotFound,
		timeout)
}

// stop requests the stop of the VM and waits for its end and the reason. last is as for awaitEnd.
func stop(ctx context.Context, o Options, last vmfile.VM) (vmfile.VM, error) {
	err := prestop.Run(ctx, prestop.Options{File: o.StopFile, Timeout: o.StopTimeout})
	if err != nil {
		return vmfile.VM{}, err
	}
	vm, _ := read(o.File)
	if vm.State == vmfile.Ended || !started(vm) && !started(last) {
		return vm, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reasonTimeout)
	defer cancel()
	vm, err = awaitEnd(ctx, o, last)
	if vm.State != vmfile.Ended {
		vm.State, vm.Reason = vmfile.Ended, vmfile.Unknown
	}
	return vm, err
}

func read(path string) (vm vmfile.VM, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		vm, err = vmfile.Decode(data)
	}
	if err != nil {
		return vmfile.VM{}, fmt.Errorf("read the state of the VM: %w", err)
	}
	return vm, nil
}
