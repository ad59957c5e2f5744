package vmwait_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/shim/prestop"
	"github.com/mooring-vm/mooring/shim/vmwait"
)

var epoch = time.Unix(0, 0)

// pod is a pod directory. Each test plays the agent.
type pod struct {
	*testing.T
	vmwait.Options
	sigterm func()
	done    chan error
}

// inPod runs the waiter in a bubble of synctest.
func inPod(t *testing.T, change func(*vmwait.Options), test func(p *pod)) {
	t.Helper()
	dir := t.TempDir()
	o := vmwait.Options{File: filepath.Join(dir, "vm.json"), StopFile: filepath.Join(dir, "stop")}
	if err := errors.Join(unix.Mkfifo(o.StopFile, 0o666), os.Chtimes(o.StopFile, epoch,
		epoch)); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := &pod{T: t, Options: o, sigterm: cancel, done: make(chan error, 1)}
		go func() { p.done <- vmwait.Run(ctx, p.Options) }()
		defer cancel()
		test(p)
	})
}

// publish writes the state of the VM as the agent does.
func (p *pod) publish(state vmfile.State, reason vmfile.Reason) {
	p.Helper()
	data, err := vmfile.Encode(vmfile.VM{State: state, Domain: "vm-3", PID: 7, Reason: reason})
	if err == nil {
		err = os.WriteFile(p.File+".new", data, 0o600)
	}
	if err := errors.Join(err, os.Rename(p.File+".new", p.File)); err != nil {
		p.Error(err)
	}
}

func (p *pod) confirm() {
	p.Helper()
	if err := os.Chtimes(p.StopFile, epoch, epoch); err != nil {
		p.Error(err)
	}
}

func (p *pod) requested() bool {
	requested, err := prestop.Requested(p.StopFile)
	if err != nil {
		p.Error(err)
	}
	return requested
}

// waits fails the test if Run has returned after this time.
func (p *pod) waits(d time.Duration) {
	p.Helper()
	time.Sleep(d)
	synctest.Wait()
	select {
	case err := <-p.done:
		p.Fatalf("it did not wait: %v", err)
	default:
	}
}

func TestExitOfEachReason(t *testing.T) {
	for _, reason := range []vmfile.Reason{
		vmfile.Shutdown, vmfile.Migrated, vmfile.Destroyed, vmfile.Crashed, vmfile.Saved,
		vmfile.Terminated, vmfile.Unknown,
	} {
		inPod(t, nil, func(p *pod) {
			p.publish(vmfile.Absent, "")
			p.waits(time.Minute)
			p.publish(vmfile.Running, "")
			p.waits(10 * time.Minute)
			p.publish(vmfile.Ending, "")
			p.waits(time.Minute)
			p.publish(vmfile.Ended, reason)
			err := <-p.done
			ended, ok := errors.AsType[*vmwait.EndedError](err)
			orderly := reason == vmfile.Shutdown || reason == vmfile.Migrated
			if ok == orderly || orderly && err != nil || ok && ended.VM.Reason != reason {
				t.Errorf("%s: %v", reason, err)
			}
		})
	}
}

// The VM ended before the launcher began to wait.
func TestEndedBefore(t *testing.T) {
	inPod(t, nil, func(p *pod) {
		p.publish(vmfile.Ended, vmfile.Shutdown)
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	})
}

const laterEnd = `{"version":2,"state":"ended","domain":"vm-3","reason":"shutdown"}`

// An absent agent, an unreadable file, an unknown state and a later version prove no end.
func TestNoAnswerIsNoEnd(t *testing.T) {
	inPod(t, nil, func(p *pod) {
		p.publish(vmfile.Running, "")
		p.waits(time.Second)
		for _, text := range []string{"", "{", `{"state":"other"}`, laterEnd} {
			if err := os.WriteFile(p.File, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p.waits(10 * time.Minute)
		}
		if err := os.Remove(p.File); err != nil {
			t.Fatal(err)
		}
		p.waits(10 * time.Minute)
		p.publish(vmfile.Ended, vmfile.Crashed)
		if err := <-p.done; err == nil || !strings.Contains(err.Error(), "vm-3 has ended: crashed") {
			t.Error(err)
		}
	})
}

// A launcher older than its agent waits on, and its log says once why.
func TestLaterVersion(t *testing.T) {
	var log strings.Builder
	change := func(o *vmwait.Options) {
		o.StartTimeout = time.Minute
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
	}
	inPod(t, change, func(p *pod) {
		if err := os.WriteFile(p.File, []byte(laterEnd), 0o600); err != nil {
			t.Fatal(err)
		}
		err := <-p.done
		const unknown = "version 2 of the file is unknown"
		if !errors.Is(err, vmwait.ErrNotFound) || !strings.Contains(err.Error(), unknown) {
			t.Errorf("%v, want %q", err, unknown)
		}
		if n := strings.Count(log.String(), unknown); n != 1 {
			t.Errorf("%d lines in the log, want one:\n%s", n, log.String())
		}
	})
}

func TestNoVMInTime(t *testing.T) {
	for _, published := range []bool{false, true} {
		inPod(t, func(o *vmwait.Options) { o.StartTimeout = time.Minute }, func(p *pod) {
			if published {
				p.publish(vmfile.Absent, "")
			}
			p.waits(59 * time.Second)
			err := <-p.done
			text := "annotation domain.lifecycle.mooring.dev"
			if published {
				text = "start the pod's domain"
			}
			if !errors.Is(err, vmwait.ErrNotFound) || !strings.Contains(err.Error(), text) {
				t.Errorf("published: %t: %v", published, err)
			}
			if p.requested() {
				t.Error("there is a stop request")
			}
		})
	}
}

// The launcher outlives SIGTERM until the VM has ended, also while the agent is away.
func TestSIGTERM(t *testing.T) {
	for reason, orderly := range map[vmfile.Reason]bool{"shutdown": true, "terminated": false} {
		inPod(t, nil, func(p *pod) {
			p.publish(vmfile.Running, "")
			p.waits(time.Second)
			if p.requested() {
				t.Error("a stop request before SIGTERM")
			}
			p.sigterm()
			p.waits(10 * time.Minute)
			if !p.requested() {
				t.Error("no stop request after SIGTERM")
			}
			p.publish(vmfile.Ending, "")
			p.confirm()
			p.waits(5 * time.Second)
			p.publish(vmfile.Ended, reason)
			if err := <-p.done; (err == nil) != orderly {
				t.Errorf("%s: %v", reason, err)
			}
		})
	}
}

func TestSIGTERMWithBound(t *testing.T) {
	inPod(t, func(o *vmwait.Options) { o.StopTimeout = time.Minute }, func(p *pod) {
		p.publish(vmfile.Running, "")
		p.waits(time.Second)
		p.sigterm()
		p.waits(59 * time.Second)
		if err := <-p.done; !errors.Is(err, prestop.ErrTimeout) || !p.requested() {
			t.Error(err)
		}
	})
}

// After the confirmation the reason is due in bounded time.
func TestSIGTERMWithoutReason(t *testing.T) {
	inPod(t, nil, func(p *pod) {
		p.publish(vmfile.Ending, "")
		p.waits(time.Second)
		p.sigterm()
		synctest.Wait()
		p.confirm()
		err := <-p.done
		if ended, ok := errors.AsType[*vmwait.EndedError](err); !ok ||
			ended.VM.Reason != vmfile.Unknown {
			t.Error(err)
		}
	})
}

// SIGTERM before the start of the VM: a domain may be about to start, so the stop is requested.
func TestSIGTERMWithoutVM(t *testing.T) {
	inPod(t, nil, func(p *pod) {
		p.publish(vmfile.Absent, "")
		p.waits(time.Second)
		p.sigterm()
		p.waits(10 * time.Minute)
		p.confirm()
		if err := <-p.done; err != nil {
			t.Error(err)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for _, o := range []vmwait.Options{{StartTimeout: -1}, {StopTimeout: -1}, {Poll: -1}} {
		if err := vmwait.Run(t.Context(), o); err == nil || errors.Is(err, prestop.ErrNoDirectory) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := vmwait.Options{StopFile: filepath.Join(t.TempDir(), "none", "stop")}
	if err := vmwait.Run(t.Context(), o); !errors.Is(err, prestop.ErrNoDirectory) {
		t.Errorf("without a pod directory: %v", err)
	}
}

// A file that is gone or unreadable after the confirmed stop gives no reason: the VM did run.
func TestSIGTERMWithoutFile(t *testing.T) {
	inPod(t, nil, func(p *pod) {
		p.publish(vmfile.Running, "")
		p.waits(time.Second)
		p.sigterm()
		p.waits(time.Second)
		if err := os.WriteFile(p.File, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		p.confirm()
		err := <-p.done
		if ended, ok := errors.AsType[*vmwait.EndedError](err); !ok ||
			ended.VM.Reason != vmfile.Unknown || ended.VM.Domain != "vm-3" {
			t.Error(err)
		}
	})
}
