package supervisor_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// TestStopsAreConfirmedOrReported: after random events and a quiet time, each stop request is
// confirmed or has the Event VMStuck. So has each VM process of a launcher that has ended. No VM
// process gets a signal without a reason. After all faults, no VM process of an ended launcher is
// left.
func TestStopsAreConfirmedOrReported(t *testing.T) {
	plan := rapid.SliceOfN(rapid.Custom(drawHappening), 1, 25)
	rapid.Check(t, func(rt *rapid.T) {
		happenings := plan.Draw(rt, "happenings")
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = newNode(t).live(happenings) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// happening is a random event of the node. at chooses the launcher, the process or the variant.
type happening struct {
	kind string
	at   int
}

var kinds = []string{
	"emulator", "domain", "inherited emulator", "stop request", "launcher ends", "VM ends",
	"broken record", "libvirt fails", "tracker fails", "tracker hides", "handles fail",
	"domain's record goes", "restart", "reconciled", "unkillable", "time passes",
}

func drawHappening(t *rapid.T) happening {
	return happening{
		rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.IntRange(0, 11).Draw(t, "at"),
	}
}

// node is a rig with the launchers and processes of a random history.
type node struct {
	*rig
	faultyNode
	launchers  []*nodeLauncher
	vms        []*nodeVM
	unkillable sync.Map // pids
}

type nodeLauncher struct {
	launcher
	ended, stopping bool
}

// nodeVM is a VM process with its launcher. A domain has nil: either of the two launchers that
// declare it.
type nodeVM struct {
	host.Process
	of   *nodeLauncher
	lost bool // started without a living launcher, or has no record any more
}

func newNode(t *testing.T) *node {
	n := &node{}
	n.rig = newRig(t, n.install)
	n.kernel.Ignores = func(pid int, _ string) bool {
		_, ok := n.unkillable.Load(pid)
		return ok
	}
	n.start()
	for name, declared := range []string{"", "one", domainUUID, ""} {
		l := n.launch(fmt.Sprint("vm-", name), func(l *registry.Launcher) { l.Domain = declared })
		n.launchers = append(n.launchers, &nodeLauncher{launcher: l})
	}
	return n
}

// live lets the events happen and returns the first fault, empty if there is none.
func (n *node) live(happenings []happening) (fault string) {
	defer func() { n.stop() }()
	for _, h := range happenings {
		n.apply(h)
		n.advance(time.Second)
		if fault = n.unjustSignal(); fault != "" {
			return fault
		}
	}
	n.advance(4 * time.Minute)
	if fault = n.unjustSignal(); fault != "" {
		return fault
	}
	if fault = n.silentWait(); fault != "" {
		return fault
	}
	n.endFaults()
	n.advance(4 * time.Minute)
	return n.survivor()
}

// endFaults ends all faults of the node.
func (n *node) endFaults() {
	n.domains.Break()
	n.domains.Fail(nil)
	n.rig.tracker.Fail(nil)
	n.handles.fail.Store(false)
	n.unkillable.Clear()
	for _, vm := range n.vms {
		n.rig.tracker.Hide(vm.Process, false)
	}
	n.Reconciled()
}

// survivor describes a VM process after the end of all its launchers.
func (n *node) survivor() string {
	for _, vm := range n.vms {
		ended := vm.of != nil && vm.of.ended ||
			vm.of == nil && n.launchers[1].ended && n.launchers[2].ended
		if ended && !vm.lost && n.alive(vm.Process) {
			return fmt.Sprintf("VM process %d outlives its launchers: %v", vm.PID,
				n.recorder.Reasons())
		}
	}
	return ""
}

func (n *node) apply(h happening) {
	l, on := n.launchers[h.at%len(n.launchers)], h.at%2 == 0
	switch h.kind {
	case "emulator":
		if !l.ended {
			n.add(n.startQEMU(l.cgroup), l)
		}
	case "domain":
		n.runDomain()
	case "inherited emulator":
		if !l.ended {
			vm := n.inheritGroup(l.launcher, "/machine/x")
			n.kernel.SetArguments(vm.PID, "qemu-system-x86_64", "-name", "guest=three", "-uuid",
				"a4e2f9d1-6f06-4c8b-9d8f-5a1c2b3d4e5f")
			n.ProcessEvent(n.rig.tracker.Exec(vm, "qemu-system-x86_64"))
			n.add(vm, l)
		}
	case "stop request":
		if n.HasPod(l.Pod.UID) {
			l.stopping = true
			n.requestStop(l.launcher)
		}
	case "launcher ends":
		if !l.ended {
			l.ended = true
			n.exit(l.process, "SIGKILL")
		}
	case "VM ends":
		if len(n.vms) > 0 {
			n.kernel.Exit(n.vms[h.at%len(n.vms)].PID)
		}
	case "broken record":
		n.domains.Break([][]tie.Domain{
			nil, {{Name: "one"}}, {{Name: "two"}}, {{Name: "one", UUID: domainUUID}},
		}[h.at%4]...)
	case "libvirt fails":
		n.domains.Fail(map[bool]error{true: errNoAnswer}[on])
	case "domain's record goes":
		n.forgetDomain()
	case "reconciled":
		n.Reconciled()
	case "time passes":
		n.advance(time.Duration(h.at) * 5 * time.Second)
	default:
		n.applyFault(h, on)
	}
}

func (n *node) applyFault(h happening, on bool) {
	switch h.kind {
	case "tracker fails":
		n.rig.tracker.Fail(map[bool]error{true: errNoAnswer}[on])
	case "tracker hides":
		if len(n.vms) > 0 {
			n.rig.tracker.Hide(n.vms[h.at%len(n.vms)].Process, on)
		}
	case "handles fail":
		n.handles.fail.Store(on)
	case "restart":
		n.stop()
		n.advance(time.Duration(h.at) * time.Second)
		n.start()
	case "unkillable":
		if len(n.vms) > 0 {
			n.unkillable.Store(n.vms[h.at%len(n.vms)].PID, true)
		}
	}
}

func (n *node) add(p host.Process, of *nodeLauncher) {
	lost := of == nil && n.launchers[1].ended && n.launchers[2].ended
	n.vms = append(n.vms, &nodeVM{p, of, lost})
}

func (n *node) forgetDomain() {
	n.domains.Forget(domainUUID)
	for _, vm := range n.vms {
		vm.lost = vm.lost || vm.of == nil
	}
}

// runDomain starts the domain of the launchers that declare it, unless it runs.
func (n *node) runDomain() {
	running, _, err := n.domains.Running()
	if err != nil || slices.ContainsFunc(running, func(d tie.Domain) bool {
		_, err := n.kernel.Identify(d.PID)
		return err == nil
	}) {
		return
	}
	n.forgetDomain()
	n.add(n.startDomain("/machine/x"), nil) // which of the launchers is up to the supervisor
}

// unjustSignal describes a VM process with a signal although its launcher lives and requests no
// stop. A domain's launcher is one of the two that declare it.
func (n *node) unjustSignal() string {
	for _, vm := range n.vms {
		just := vm.of == nil && (n.launchers[1].reason() || n.launchers[2].reason()) ||
			vm.of != nil && vm.of.reason()
		if signals := n.kernel.Signals(vm.PID); len(signals) > 0 && !just {
			return fmt.Sprintf("VM process %d has got %v without a reason", vm.PID, signals)
		}
	}
	return ""
}

func (l *nodeLauncher) reason() bool { return l.ended || l.stopping }

// silentWait describes a stop that waits without an Event.
func (n *node) silentWait() string {
	for _, l := range n.launchers {
		if n.stopRequested(l.launcher) && len(n.waits(l.launcher)) == 0 {
			return fmt.Sprintf("the stop of %s waits without an Event: %v", l.Pod.Name,
				n.recorder.Reasons())
		}
	}
	for _, vm := range n.vms {
		if vm.of != nil && vm.of.ended && n.alive(vm.Process) && len(n.waits(vm.of.launcher)) == 0 {
			return fmt.Sprintf("VM process %d outlives %s without an Event: %v", vm.PID,
				vm.of.Pod.Name, n.recorder.Reasons())
		}
	}
	return ""
}
