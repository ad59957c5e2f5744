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

// The tests of this file are about command lines that the supervisor cannot read at once.

// hangingArguments blocks the reading of some command lines.
type hangingArguments struct {
	supervisor.Processes
	mu      sync.Mutex
	blocked map[int]chan struct{}
	calls   atomic.Int32
}

// block blocks the reading of a pid's command line until the channel closes.
func (h *hangingArguments) block(pid int, until chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.blocked[pid] = until
}

func (h *hangingArguments) Arguments(p host.Process) ([]string, error) {
	h.mu.Lock()
	unblock := h.blocked[p.PID]
	h.mu.Unlock()
	if unblock != nil {
		h.calls.Add(1)
		<-unblock
	}
	return h.Processes.Arguments(p)
}

func TestBlockedReadsOfOnePodAreLimited(t *testing.T) {
	h := &hangingArguments{blocked: map[int]chan struct{}{}}
	change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
	inBubble(t, change, func(r *rig) {
		bad, good := r.launch("bad", nil), r.launch("good", nil)
		release := make(chan struct{})
		var all []host.Process
		for range 200 {
			p := r.startProcess(bad.cgroup)
			h.block(p.PID, release)
			all = append(all, p)
		}
		for _, p := range all {
			r.ProcessEvent(r.tracker.Exec(p, "qemu-system-x86_64"))
		}
		r.requestStop(good)
		r.advance(5 * time.Second)
		if r.stopRequested(good) {
			t.Error("the stop of another pod is not confirmed")
		}
		r.advance(10 * time.Minute)
		if n := h.calls.Load(); n == 0 || n > 4 {
			t.Errorf("%d reads of command lines for one pod, want 1 to 4", n)
		}
		close(release)
		synctest.Wait()
	})
}

// startHanging starts an emulator whose command line is blocked until the channel closes.
func (h *hangingArguments) startHanging(
	r *rig, cgroup string, until chan struct{}, args ...string,
) host.Process {
	p := r.startProcess(cgroup)
	h.block(p.PID, until)
	r.kernel.SetArguments(p.PID, append([]string{"qemu-kvm"}, args...)...)
	r.ProcessEvent(r.tracker.Exec(p, "qemu-kvm"))
	return p
}

func withHangingArguments(t *testing.T, test func(r *rig, h *hangingArguments)) {
	h := &hangingArguments{blocked: map[int]chan struct{}{}}
	inBubble(t, func(c *supervisor.Config) {
		withAllStops(c)
		h.Processes, c.Processes = c.Processes, h
	}, func(r *rig) { test(r, h) })
}

func TestBlockedReadsDelayNoOtherPod(t *testing.T) {
	withHangingArguments(t, func(r *rig, h *hangingArguments) {
		bad, declaring := r.launch("bad", nil), r.launch("declaring", withDomain)
		probing := r.launch("probing", withWatchdog)
		release := make(chan struct{})
		for range 64 {
			h.startHanging(r, bad.cgroup, release)
		}
		r.advance(2 * time.Second)
		r.expectSignals(r.startQEMU(probing.cgroup, "-machine", "none"))
		r.advance(watchdog - 5*time.Second)
		r.expectPhase(probing, agentapi.PhaseRegistered)
		vm := r.startDomain("/machine/x")
		r.expectPhase(declaring, agentapi.PhaseActive, agentapi.VMRunning)
		r.kernel.Exit(declaring.process.PID)
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) {
			t.Error("the VM of another pod outlives its launcher")
		}
		close(release)
		synctest.Wait()
	})
}

func TestEventAndScanShareOneRead(t *testing.T) {
	withHangingArguments(t, func(r *rig, h *hangingArguments) {
		l, other := r.launch("probing", withWatchdog), r.launch("other", nil)
		release := make(chan struct{})
		probe := h.startHanging(r, l.cgroup, release, "-machine", "none")
		synctest.Wait()
		r.ScanLauncher(other.Container.ID)
		r.advance(5 * time.Millisecond)
		close(release)
		r.advance(time.Second)
		r.expectSignals(probe)
		r.expectPhase(l, agentapi.PhaseRegistered)
		if n := h.calls.Load(); n != 1 {
			t.Errorf("%d concurrent reads of the command line, want 1", n)
		}
	})
}

// The supervisor concludes nothing from a command line before it has read it.
func TestMoreEmulatorsThanReads(t *testing.T) {
	withHangingArguments(t, func(r *rig, h *hangingArguments) {
		l := r.launch("vm", nil)
		release := make(chan struct{})
		for range 4 {
			h.startHanging(r, l.cgroup, release, "-machine", "none")
		}
		synctest.Wait()
		probe, vm := r.startQEMU(l.cgroup, "-machine", "none"), r.startQEMU(l.cgroup)
		r.expectPhase(l, agentapi.PhaseRegistered)
		r.requestStop(l)
		r.advance(100 * time.Millisecond)
		if !r.stopRequested(l) {
			t.Fatal("stop confirmed before all command lines were read")
		}
		close(release)
		r.advance(time.Second)
		r.expectPhase(l, agentapi.PhaseDraining, agentapi.VMStopping)
		r.advance(gracePeriod)
		r.expectSignals(probe)
		r.expectSignals(vm, "TERM")
	})
}
