package supervisor_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// actions is a [supervisor.Observer] and a [supervisor.VMGuard] that notes each call.
type actions struct {
	mu   sync.Mutex
	done []string
}

func (a *actions) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done = append(a.done, text)
}

func (a *actions) ActionDone(action string, err error) {
	if err != nil {
		action += ": " + err.Error()
	}
	a.note(action)
}

func (a *actions) NotificationsDropped()        {}
func (a *actions) EnqueueVM(containerID string) { a.note("check " + containerID) }

func (a *actions) install(c *supervisor.Config) { c.Observer, c.Guard = a, a }

func (a *actions) expect(t *testing.T, want ...string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.done, want) {
		t.Errorf("actions %q, want %q", a.done, want)
	}
}

func TestActionsAreCounted(t *testing.T) {
	counted := &actions{}
	inBubble(t, counted.install, func(r *rig) {
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.requestStop(l)
		r.advance(gracePeriod + termPeriod)
		r.domains.Forget(domainUUID)
		r.advance(time.Minute)
		r.expectSignals(vm, "TERM", "KILL")
		counted.expect(t, "check id-vm", "shutdown", "shutdown", "shutdown", "terminate", "kill",
			"confirm")
	})
}

func TestRequestToAStopHandlerIsCounted(t *testing.T) {
	counted := &actions{}
	inBubble(t, counted.install, func(r *rig) {
		l := r.launch("vm", nil)
		r.startQEMU(l.cgroup)
		r.connected(l, true)
		r.exit(l.process, "SIGKILL")
		counted.expect(t, "check id-vm", "shutdown")
	})
}

// brokenSignals is a node whose kernel refuses signals.
type brokenSignals struct{ supervisor.Processes }

type brokenHandle struct{ host.Handle }

func (b brokenSignals) OpenHandle(p host.Process, ended func()) (host.Handle, error) {
	h, err := b.Processes.OpenHandle(p, ended)
	return brokenHandle{h}, err
}

func (brokenHandle) Terminate() error { return unix.EPERM }
func (brokenHandle) Kill() error      { return unix.EPERM }

// A security module denies the agent its signals. Events name the VM process, and the stop has no
// confirmation.
func TestRefusedSignals(t *testing.T) {
	counted := &actions{}
	change := func(c *supervisor.Config) {
		counted.install(c)
		c.Processes = brokenSignals{c.Processes}
	}
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.advance(gracePeriod + termPeriod)
		const refused = ": operation not permitted"
		counted.expect(t, "check id-vm", "terminate"+refused, "kill"+refused)
		for _, reason := range []agentapi.Reason{
			agentapi.ReasonVMTerminated, agentapi.ReasonVMKilled,
		} {
			failed := slices.ContainsFunc(r.recorder.Events(), func(e agentapi.Event) bool {
				return e.Reason == reason && e.Type == agentapi.Warning && !e.Time.IsZero() &&
					e.Container.PID == vm.PID && strings.Contains(e.Message, "failed"+refused)
			})
			if !failed {
				t.Errorf("no Event %s with the failure: %+v", reason, r.recorder.Events())
			}
		}
		if !r.stopRequested(l) {
			t.Error("stop confirmed while the VM runs")
		}
	})
}

// killedCgroups notes the killed cgroups.
type killedCgroups struct {
	supervisor.Processes
	*actions
}

func (k killedCgroups) KillCgroup(cgroup string) error {
	k.note(cgroup)
	return k.Processes.KillCgroup(cgroup)
}

// A VM in a pod has no cgroup of its own. Its launcher and the preStop hook share the container's.
func TestNoKillOfACgroupInAPod(t *testing.T) {
	killed := &actions{}
	change := func(c *supervisor.Config) { c.Processes = killedCgroups{c.Processes, killed} }
	inBubble(t, change, func(r *rig) {
		r.kernel.Ignores = func(_ int, signal string) bool { return signal == "TERM" }
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.advance(gracePeriod + termPeriod)
		r.expectSignals(vm, "TERM", "KILL")
		killed.expect(t)
	})
}

// The agent has no file descriptor for a handle. The VM's own cgroup ends it all the same.
func TestKillWithoutAHandle(t *testing.T) {
	h := &failingOpenHandle{}
	change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.kernel.Write(ownScope, "cgroup.type", "domain\n")
		vm := r.startDomain(ownScope + "/emulator")
		r.stop()
		h.fail.Store(true)
		r.start()
		r.requestStop(l)
		r.advance(gracePeriod + 2*termPeriod)
		if r.alive(vm) {
			t.Error("the VM outlives the stop")
		}
	})
}

// A VM process executes another file just before the agent asks libvirt to shut down its guest.
func TestNoGuestShutdownAfterAnotherExec(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		shutdowns := 0
		r.domains.OnShutdown = func(tie.Domain) error { shutdowns++; return nil }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		ended := supervisor.ProcessEvent{Ended: true, How: "SIGKILL"}
		ended.Process = l.process
		other := r.tracker.Exec(vm, "")
		r.ProcessEvent(ended)
		r.ProcessEvent(other) // before a turn of Run
		r.advance(time.Minute)
		if shutdowns != 0 {
			t.Errorf("%d requests to shut down the guest, want none", shutdowns)
		}
	})
}

// The policy names no libvirt of the node any more. The agent ends the VM of an earlier policy.
func TestGuestShutdownWithoutALibvirt(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.stop()
		r.config.Domains = nil
		r.start()
		r.exit(l.process, "SIGKILL")
		r.advance(time.Second)
		r.expectNotes(1, agentapi.ReasonVMShutdown, l.Pod, "the policy names no libvirt")
		r.expectSignals(vm, "TERM")
	})
}

// libvirt answers after the end of VM and launcher. The next agent finds no tie.
func TestLateAnswerOfLibvirt(t *testing.T) {
	counted := &actions{}
	inBubble(t, counted.install, func(r *rig) {
		r.Reconciled()
		answer := make(chan error)
		r.domains.OnShutdown = func(tie.Domain) error { return <-answer }
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.exit(l.process, "SIGKILL")
		r.exit(vm, "exit code 0")
		r.domains.Forget(domainUUID)
		r.advance(time.Minute)
		if r.HasPod(l.Pod.UID) {
			t.Fatal("the tie was kept")
		}
		answer <- errors.New("connection reset")
		r.advance(time.Second)
		counted.expect(t, "check id-vm", "shutdown: connection reset")
		if all, err := r.store.Load(); err != nil || len(all) != 0 {
			t.Errorf("stored ties %+v, %v, want none", all, err)
		}
	})
}

// A gone process is no failure of its request to libvirt.
func TestRequestForAGoneProcessIsNotCounted(t *testing.T) {
	counted := &actions{}
	inBubble(t, counted.install, func(r *rig) {
		l := r.launch("vm", withDomain)
		vm := r.startDomain("/machine/x")
		r.replaceProcess(vm)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Second)
		counted.expect(t, "check id-vm")
	})
}

// A supervisor without pod directories confirms no stop. The pod has none either.
func TestStopWithoutPodDirectories(t *testing.T) {
	counted := &actions{}
	change := func(c *supervisor.Config) {
		counted.install(c)
		c.PodDirs = nil
	}
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.exit(l.process, "SIGKILL")
		r.advance(time.Minute)
		r.expectSignals(vm, "TERM")
		counted.expect(t, "check id-vm", "terminate")
	})
}

// The pod has requested a stop, and the next supervisor has no pod directories.
func TestStopRequestWithoutPodDirectories(t *testing.T) {
	counted := &actions{}
	inBubble(t, counted.install, func(r *rig) {
		l := r.launch("vm", nil)
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.stop()
		r.config.PodDirs = nil
		r.start()
		r.advance(gracePeriod + time.Minute)
		r.expectSignals(vm, "TERM")
		counted.expect(t, "check id-vm", "terminate")
	})
}
