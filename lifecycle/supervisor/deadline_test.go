package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// The tests of this file are about a VM process that ends at the deadline of its stop.

// The agent has no handle of the VM process, which ends unobserved. The deadline of the stop then
// finds the end, and sends no signal.
func TestEndIsFoundAtTheDeadline(t *testing.T) {
	counted, h := &actions{}, &failingOpenHandle{}
	change := func(c *supervisor.Config) {
		counted.install(c)
		h.Processes, c.Processes = c.Processes, h
	}
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.stop()
		h.fail.Store(true)
		r.start()
		r.advance(5 * time.Second) // no resync at the deadline, which would find the end, too
		r.requestStop(l)
		r.advance(gracePeriod - time.Millisecond)
		r.kernel.Exit(vm.PID)
		h.fail.Store(false)
		r.advance(time.Millisecond)
		counted.expect(t, "check id-vm", "confirm")
		if r.stopRequested(l) {
			t.Error("stop not confirmed at the deadline")
		}
	})
}

// lateEnds is a node with handles that notify of an end a second late.
type lateEnds struct{ supervisor.Processes }

func (l lateEnds) OpenHandle(p host.Process, ended func()) (host.Handle, error) {
	return l.Processes.OpenHandle(p, func() { time.AfterFunc(time.Second, ended) })
}

// The VM process ends just before the deadline of its stop. The signal finds it gone, and its
// handle notifies later. The tracker's reason of the end stays.
func TestReasonOfAnEndAtTheDeadline(t *testing.T) {
	change := func(c *supervisor.Config) { c.Processes = lateEnds{c.Processes} }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.advance(gracePeriod - time.Millisecond)
		r.exit(vm, "SIGSEGV")
		r.advance(termPeriod)
		r.expectSignals(vm)
		r.expectNotes(1, agentapi.ReasonVMGone, l.Pod, ": SIGSEGV")
	})
}
