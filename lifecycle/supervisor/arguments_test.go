package supervisor_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// The tests of this file are of command lines that are not read at once.

// hangingArguments are command lines of which some cannot be read.
type hangingArguments struct {
	supervisor.Processes
	mu    sync.Mutex
	hang  map[int]chan struct{}
	calls atomic.Int32
}

// keep has the command line of a pid not read until then.
func (h *hangingArguments) keep(pid int, until chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hang[pid] = until
}

func (h *hangingArguments) Arguments(p host.Process) ([]string, error) {
	h.mu.Lock()
	c := h.hang[p.PID]
	h.mu.Unlock()
	if c != nil {
		h.calls.Add(1)
		<-c
	}
	return h.Processes.Arguments(p)
}

// TestHangingCommandLines: a pod can keep who reads its memory waiting.
func TestHangingCommandLines(t *testing.T) {
	h := &hangingArguments{hang: map[int]chan struct{}{}}
	inBubble(t, func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }, func(r *rig) {
		bad, good := r.launch("bad", nil), r.launch("good", nil)
		release := make(chan struct{})
		var all []host.Process
		for range 200 {
			p := r.process(bad.cgroup)
			h.keep(p.PID, release)
			all = append(all, p)
		}
		for _, p := range all {
			r.ProcessEvent(r.tracker.Exec(p, "qemu-system-x86_64"))
		}
		r.ask(good)
		r.after(5 * time.Second)
		if r.stopAsked(good) {
			t.Error("another pod's stop is not confirmed")
		}
		r.after(10 * time.Minute)
		if n := h.calls.Load(); n == 0 || n > 4 {
			t.Errorf("%d command lines of one pod are being read, want some, and at most 4", n)
		}
		close(release)
		synctest.Wait()
	})
}

// hanging starts an emulator in a cgroup, whose command line cannot be read until then.
func (h *hangingArguments) hanging(r *rig, cgroup string, until chan struct{}, args ...string) host.Process {
	p := r.process(cgroup)
	h.keep(p.PID, until)
	r.kernel.SetArguments(p.PID, append([]string{"qemu-kvm"}, args...)...)
	r.ProcessEvent(r.tracker.Exec(p, "qemu-kvm"))
	return p
}

func hangingBubble(t *testing.T, test func(r *rig, h *hangingArguments)) {
	h := &hangingArguments{hang: map[int]chan struct{}{}}
	inBubble(t, func(c *supervisor.Config) {
		strict(c)
		h.Processes, c.Processes = c.Processes, h
	}, func(r *rig) { test(r, h) })
}

// TestOnePodKeepsAllReadersWaiting: no other pod is judged by that.
func TestOnePodKeepsAllReadersWaiting(t *testing.T) {
	hangingBubble(t, func(r *rig, h *hangingArguments) {
		bad, declaring, probing := r.launch("bad", nil), r.launch("declaring", declares), r.launch("probing", watched)
		release := make(chan struct{})
		for range 64 {
			h.hanging(r, bad.cgroup, release)
		}
		r.after(2 * time.Second)
		r.sent(r.qemu(probing.cgroup, "-machine", "none"))
		r.after(watchdog - 5*time.Second)
		r.is(probing, agentapi.PhaseRegistered)
		vm := r.domain("/machine/x")
		r.is(declaring, agentapi.PhaseActive, agentapi.VMRunning)
		r.kernel.Exit(declaring.owner.PID)
		r.after(grace + 2*term)
		if r.lives(vm) {
			t.Error("the VM of another pod outlives its launcher")
		}
		close(release)
		synctest.Wait()
	})
}

// TestProbeWithTwoReaders: what is told of it, and a look that anybody wants.
func TestProbeWithTwoReaders(t *testing.T) {
	hangingBubble(t, func(r *rig, h *hangingArguments) {
		l, other := r.launch("probing", watched), r.launch("other", nil)
		release := make(chan struct{})
		probe := h.hanging(r, l.cgroup, release, "-machine", "none")
		synctest.Wait()
		r.ScanLauncher(other.Container.ID)
		r.after(5 * time.Millisecond)
		close(release)
		r.after(time.Second)
		r.sent(probe)
		r.is(l, agentapi.PhaseRegistered)
		if n := h.calls.Load(); n != 1 {
			t.Errorf("its command line was read %d times at once", n)
		}
	})
}

// TestMoreEmulatorsThanReaders: what was not read is asked again, and nothing is
// concluded before.
func TestMoreEmulatorsThanReaders(t *testing.T) {
	hangingBubble(t, func(r *rig, h *hangingArguments) {
		l := r.launch("vm", nil)
		release := make(chan struct{})
		for range 4 {
			h.hanging(r, l.cgroup, release, "-machine", "none")
		}
		synctest.Wait()
		probe, vm := r.qemu(l.cgroup, "-machine", "none"), r.qemu(l.cgroup)
		r.is(l, agentapi.PhaseRegistered)
		r.ask(l)
		r.after(100 * time.Millisecond)
		if !r.stopAsked(l) {
			t.Fatal("confirmed before it is known what runs")
		}
		close(release)
		r.after(time.Second)
		r.is(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.after(grace)
		r.sent(probe)
		r.sent(vm, "TERM")
	})
}
