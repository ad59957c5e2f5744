package supervisor_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// fork starts a child of an emulator that executes the same file, and sends the event.
func (r *rig) fork(cgroup string) host.Process {
	child := r.startProcess(cgroup)
	forked := r.tracker.Exec(child, "qemu-system-x86_64")
	forked.Forked = true
	r.ProcessEvent(forked)
	synctest.Wait()
	return child
}

// A fork of QEMU is a daemon, or executes a helper at once.
func TestForkOfAnEmulator(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		helper := r.fork(l.cgroup)
		r.advance(100 * time.Millisecond)
		r.ProcessEvent(r.tracker.Exec(helper, ""))
		r.advance(time.Second)
		r.expectVMs(l, vm)
		started := 0
		for _, reason := range r.recorder.Reasons() {
			if reason == agentapi.ReasonVMStarted {
				started++
			}
		}
		if started != 1 {
			t.Errorf("%d Events VMStarted, want 1", started)
		}
		daemon := r.fork(l.cgroup)
		r.advance(time.Second)
		r.expectVMs(l, vm, daemon)
		r.fork("/system.slice/labeller.service") // of no launcher
		r.expectVMs(l, vm, daemon)
	})
}

// The launcher process is the emulator, and executes another file. The VM has ended, and the
// launcher lives.
func TestLauncherThatWasAnEmulator(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		r.ProcessEvent(r.tracker.Exec(l.process, "qemu-kvm"))
		r.advance(time.Second)
		r.expectVMs(l, l.process)
		other := r.startQEMU(l.cgroup)
		r.ProcessEvent(r.tracker.Exec(l.process, ""))
		r.advance(time.Second)
		r.expectVMs(l, other)
		r.expectSignals(other)
		if slices.Contains(r.recorder.Reasons(), agentapi.ReasonOwnerGone) {
			t.Error("the launcher counts as ended")
		}
		r.exit(l.process, "SIGKILL")
		r.expectSignals(other, "TERM")
	})
}

// Each emulator has the record of its own domain.
func TestTwoDomains(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		two := r.startProcess("/machine/y")
		r.kernel.SetArguments(two.PID, "qemu-system-x86_64", "-uuid", "uuid-two")
		r.domains.Run(tie.Domain{Name: "two", UUID: "uuid-two", PID: two.PID})
		r.ProcessEvent(r.tracker.Exec(two, "qemu-system-x86_64"))
		vm := r.startDomain("/machine/x")
		r.startQEMU(l.cgroup, "-machine", "none")
		moved := r.inheritGroup(l, "/elsewhere")
		r.ProcessEvent(r.tracker.Exec(moved, "qemu-kvm"))
		r.advance(time.Second)
		r.expectVMs(l, vm, moved)
		r.exit(l.process, "SIGKILL")
		r.advance(gracePeriod + termPeriod)
		r.expectSignals(vm, "TERM")
		r.expectSignals(two)
	})
}

// A pod forges the command line of another pod's domain, in a process with the recorded pid.
func TestForgedDomainInAPod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		pod, declarer := r.launch("pod", nil), r.launch("declarer", withDomain)
		forged := r.startDomain(pod.cgroup)
		r.advance(time.Second)
		r.expectVMs(pod, forged)
		r.expectVMs(declarer)
	})
}

// rootMembers lists all processes of the node in the root cgroup.
type rootMembers struct{ supervisor.Processes }

func (m rootMembers) Members(cgroup string) ([]host.Process, error) {
	if cgroup == "" {
		cgroup = "/"
	}
	return m.Processes.Members(cgroup)
}

// A created launcher has an unknown cgroup, and no process of the node.
func TestEmulatorBesideACreatedLauncher(t *testing.T) {
	change := func(c *supervisor.Config) { c.Processes = rootMembers{c.Processes} }
	inBubble(t, change, func(r *rig) {
		l := launcher{Launcher: r.registerCreated("created")}
		other := r.startQEMU("/system.slice/labeller.service")
		r.ScanLauncher(l.Container.ID)
		r.advance(time.Minute)
		r.expectVMs(l)
		r.expectSignals(other)
	})
}

// The tie waits for a remaining process of an ended launcher, which can still execute an emulator.
func TestProcessOutlivesItsLauncher(t *testing.T) {
	for name, hasRoom := range map[string]bool{"unknown to the tracker": true, "no group": false} {
		t.Run(name, func(t *testing.T) {
			full := &fullTracker{}
			full.hasRoom.Store(hasRoom)
			change := func(c *supervisor.Config) { full.Tracker, c.Tracker = c.Tracker, full }
			inBubble(t, change, func(r *rig) {
				l := r.launch("vm", nil)
				left := r.startProcess(l.cgroup)
				r.tracker.Hide(left, true)
				r.exit(l.process, "SIGKILL")
				r.advance(time.Minute)
				if !r.HasPod(l.Pod.UID) {
					t.Error("the tie was dropped before the end of its process")
				}
				r.kernel.Exit(left.PID)
				r.tracker.Hide(left, false)
				r.advance(time.Minute)
				if r.HasPod(l.Pod.UID) {
					t.Error("the tie was kept")
				}
			})
		})
	}
}

// The stop ignores an emulator that libvirt asks for its capabilities.
func TestStopBesideAProbe(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", nil)
		probe := r.startQEMU(l.cgroup, "-machine", "none")
		r.requestStop(l)
		r.advance(time.Second)
		if r.expectSignals(probe); r.stopRequested(l) {
			t.Errorf("stop not confirmed: %q", r.waits(l))
		}
	})
}

// libvirt starts the domain of another pod, whose process is unreadable.
func TestStopBesideAnUnclearDomain(t *testing.T) {
	withHangingArguments(t, func(r *rig, h *hangingArguments) {
		l := r.launch("vm", withDomain)
		release := make(chan struct{})
		defer close(release)
		two := h.startHanging(r, "/machine/y", release)
		r.domains.Run(tie.Domain{Name: "two", UUID: "uuid-two", PID: two.PID})
		r.requestStop(l)
		r.advance(time.Minute)
		if r.stopRequested(l) {
			t.Errorf("stop not confirmed: %q", r.waits(l))
		}
	})
}
