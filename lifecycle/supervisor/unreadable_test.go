package supervisor_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// unreadableCgroups fails while fail is set.
type unreadableCgroups struct {
	supervisor.Processes
	fail atomic.Bool
}

func (u *unreadableCgroups) Members(cgroup string) ([]host.Process, error) {
	if u.fail.Load() {
		return nil, errors.New("input/output error")
	}
	return u.Processes.Members(cgroup)
}

func (u *unreadableCgroups) Exists(cgroup string) (bool, error) {
	if u.fail.Load() {
		return false, errors.New("input/output error")
	}
	return u.Processes.Exists(cgroup)
}

func inUnreadableBubble(t *testing.T, test func(r *rig, u *unreadableCgroups)) {
	t.Helper()
	u := &unreadableCgroups{}
	change := func(c *supervisor.Config) { u.Processes, c.Processes = c.Processes, u }
	inBubble(t, change, func(r *rig) { test(r, u) })
}

// The own cgroup of an ended VM is unreadable, so a helper may live there.
func TestStopWithAnUnreadableVMCgroup(t *testing.T) {
	inUnreadableBubble(t, func(r *rig, u *unreadableCgroups) {
		l := r.launch("vm", withDomain)
		vm := r.startDomain(vmScope + "/emulator")
		u.fail.Store(true)
		r.requestStop(l)
		r.exit(vm, "exit code 0")
		r.domains.Forget(domainUUID)
		r.advance(time.Minute)
		if !r.stopRequested(l) {
			t.Error("stop confirmed without a look into the cgroup")
		}
		u.fail.Store(false)
		r.advance(3 * time.Second) // less than the period of a resync
		if r.stopRequested(l) {
			t.Errorf("stop not confirmed: %q", r.waits(l))
		}
		stored, err := r.store.Load()
		if err != nil || len(stored) != 1 || len(stored[0].LeftCgroups) != 0 {
			t.Errorf("stored ties %+v, %v, want no cgroup of an ended VM", stored, err)
		}
	})
}

// The pid of a launcher belongs to a process in another cgroup. Without proof that the launcher's
// own cgroup is gone, the launcher may live.
func TestLauncherPIDWithAnUnknownCgroup(t *testing.T) {
	for name, cgroup := range map[string]string{
		"none known": "", "unreadable": "/kubepods/pod-vm/id-vm",
	} {
		inUnreadableBubble(t, func(r *rig, u *unreadableCgroups) {
			other := r.startProcess("/elsewhere")
			l := launcher{}
			l.Pod = agentapi.PodRef{Namespace: "vms", Name: "vm", UID: "uid-vm"}
			l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-vm", PID: other.PID}
			l.State = agentapi.StateRunning
			r.config.Registry.Put(l.Launcher)
			r.kernel.Write("/kubepods/pod-vm/id-vm", "cgroup.type", "domain\n")
			if err := r.Register(l.Launcher, cgroup); err != nil {
				t.Fatal(err)
			}
			u.fail.Store(true)
			r.LauncherStarted(l.Launcher)
			r.advance(time.Minute)
			if !r.HasPod("uid-vm") {
				t.Errorf("%s: the tie was dropped", name)
			}
		})
	}
}

// libvirt has made a process for the domain, and the agent cannot identify it.
func TestStopWithAnUnreadableChildOfLibvirt(t *testing.T) {
	f := &failingIdentify{}
	change := func(c *supervisor.Config) { f.Processes, c.Processes = c.Processes, f }
	inBubble(t, change, func(r *rig) {
		l := r.launch("vm", withDomain)
		r.recordDomain(r.forkDomain())
		f.fail.Store(true)
		r.requestStop(l)
		r.advance(time.Minute)
		if !r.stopRequested(l) {
			t.Error("stop confirmed while the domain may start")
		}
	})
}

// libvirtd descends from a launcher, and the command line of its VM process is unreadable. libvirt
// has recorded the domain of another launcher for it.
func TestInheritedDomainWithAnUnreadableCommandLine(t *testing.T) {
	withHangingArguments(t, func(r *rig, h *hangingArguments) {
		ancestor := r.launch("ancestor", nil)
		r.launch("declarer", withDomain)
		vm := r.inheritGroup(ancestor, "/machine/x")
		release := make(chan struct{})
		defer close(release)
		h.block(vm.PID, release)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.executeInherited(vm)
		r.exit(ancestor.process, "SIGKILL")
		r.advance(gracePeriod + 2*termPeriod)
		r.expectSignals(vm)
	})
}
