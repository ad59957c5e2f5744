package agent

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// mountBPF mounts a new bpf file system, and returns a directory for pins in it.
func mountBPF(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	err := unix.Mount("bpf", dir, "bpf", 0, "")
	if errors.Is(err, unix.EPERM) {
		skip(t, "this process may not mount")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return filepath.Join(dir, "mooring")
}

// startFence runs a fence that takes over after a second.
func startFence(t *testing.T, config Config) (log *syncBuffer) {
	t.Helper()
	p, err := policy.Load(config.Policy)
	if err != nil {
		t.Fatal(err)
	}
	p.Lifecycle.FenceAfter = time.Second
	log = &syncBuffer{}
	f := newFence(config, p, textLogger(log), host.LinuxClock{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := receive(t, done, "the fence's end"); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the fence:\n%s", log)
		}
	})
	return log
}

// Agent and runtime are away, and one of two launchers ends.
func TestFence(t *testing.T) {
	config := testConfig(t)
	config.BPFDir = mountBPF(t)
	a, runtime := startTracking(t, config)
	dies, lives := launch(t, config, runtime, "dies"), launch(t, config, runtime, "lives")
	vm, gone := runIn(t, dies.cgroup, emulator(t), "1000")
	_, otherGone := runIn(t, lives.cgroup, emulator(t), "1000")
	a.awaitPhase(t, "dies", agentapi.PhaseActive, 1)
	a.awaitPhase(t, "lives", agentapi.PhaseActive, 1)
	log := startFence(t, config)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	runtime.Stop()
	if err := dies.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	wantTerminated(t, vm, gone)
	if !strings.Contains(log.String(), "the fence takes over") {
		t.Error("the fence has not taken over")
	}
	next := start(t, config)
	eventually(t, "the fence to step aside",
		func() bool { return strings.Contains(log.String(), "the fence steps aside") })
	wantAlive(t, otherGone, "the VM of the living launcher")
	next.awaitEvent(t, agentapi.ReasonVMTerminated, byFence)
	next.plugin.Ties.Reconciled() // as if a runtime had listed its containers
	next.waitTracked(t, lives.cgroup)
	wantAlive(t, otherGone, "the VM of the living launcher")
}

// waitTracked waits until the tracker tracks this cgroup only.
func (r *running) waitTracked(t *testing.T, cgroup string) {
	t.Helper()
	want, err := bpf.CgroupID(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tracker to track only the living launcher's cgroup", func() bool {
		got, err := r.tracker.Registered()
		return err == nil && slices.Equal(got, []uint64{want})
	})
}

// awaitEvent waits for an event with this reason and a part of its message.
func (r *running) awaitEvent(t *testing.T, reason agentapi.Reason, message string) {
	t.Helper()
	s := r.events.Subscribe()
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for {
		event, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("no event %s with %q: %v", reason, message, err)
		}
		if event.Reason == reason && strings.Contains(event.Message, message) {
			return
		}
	}
}
