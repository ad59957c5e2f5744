package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// libvirtd descends from a launcher, and one of its records is unreadable. The emulator belongs to
// this launcher only if it certainly runs another domain than the one with this record.
func TestInheritedEmulatorBesideABrokenRecord(t *testing.T) {
	const otherUUID = "a4e2f9d1-6f06-4c8b-9d8f-5a1c2b3d4e5f"
	one := tie.Domain{Name: "one"}
	complete := []string{"qemu-kvm", "-name", "three", "-uuid", otherUUID}
	for name, c := range map[string]struct {
		broken  tie.Domain
		args    []string // empty: the process blocks the reading of its command line
		fails   bool     // libvirt's records cannot be listed
		stopped bool
	}{
		"another domain": {broken: tie.Domain{Name: "one", UUID: domainUUID},
			args: complete, stopped: true},
		"another domain, UUID unknown": {broken: one, args: complete, stopped: true},
		"the same name": {
			broken: tie.Domain{Name: "three", UUID: domainUUID}, args: complete,
		},
		"the same UUID": {
			broken: tie.Domain{Name: "one", UUID: otherUUID}, args: complete,
		},
		"no name in the command line": {broken: one, args: complete[3:]},
		"no UUID in the command line": {broken: one, args: complete[:3]},
		"command line unreadable":     {broken: one},
		"no list of records":          {broken: one, args: complete, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hangingArguments{blocked: map[int]chan struct{}{}}
			change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
			inBubble(t, change, func(r *rig) {
				ancestor := r.launch("ancestor", nil)
				r.launch("declarer", withDomain)
				r.domains.Break(c.broken)
				if c.fails {
					r.domains.Fail(errNoAnswer)
				}
				vm := r.inheritGroup(ancestor, "/machine/x")
				release := make(chan struct{})
				defer close(release)
				if len(c.args) == 0 {
					h.block(vm.PID, release)
				}
				r.kernel.SetArguments(vm.PID, c.args...)
				r.ProcessEvent(r.tracker.Exec(vm, "qemu-kvm"))
				r.advance(time.Minute)
				r.expectSignals(vm)
				r.exit(ancestor.process, "SIGKILL")
				r.advance(2 * time.Minute)
				if r.alive(vm) == c.stopped {
					t.Errorf("VM alive: %t, want it stopped: %t", r.alive(vm), c.stopped)
				}
				if got := r.waits(ancestor); (len(got) > 0) == c.stopped {
					t.Errorf("Events about the wait: %q", got)
				}
			})
		})
	}
}

// The emulator belongs to the launcher from which it descends, until a record proves another one.
func TestRecordProvesTheLauncherOfAnInheritedEmulator(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		ancestor, declarer := r.launch("ancestor", nil), r.launch("declarer", withDomain)
		r.domains.Break(tie.Domain{Name: "two"})
		vm := r.inheritGroup(ancestor, "/machine/x")
		r.kernel.SetArguments(vm.PID, "qemu-kvm", "-name", "one", "-uuid", domainUUID)
		r.ProcessEvent(r.tracker.Exec(vm, "qemu-kvm"))
		r.advance(time.Second)
		r.expectVMs(ancestor, vm)
		r.domains.Run(tie.Domain{Name: "one", UUID: domainUUID, PID: vm.PID})
		r.DomainsChanged()
		r.advance(time.Second)
		r.expectVMs(ancestor)
		r.expectVMs(declarer, vm)
		r.exit(ancestor.process, "SIGKILL")
		r.advance(time.Minute)
		r.expectSignals(vm)
	})
}

// expectVMs fails the test unless the launcher has exactly these VM processes.
func (r *rig) expectVMs(l launcher, want ...host.Process) {
	r.t.Helper()
	got := r.view(l).VMs
	same := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		same = same && got[i].PID == want[i].PID
	}
	if !same {
		r.t.Errorf("launcher %s has VMs %+v, want %v", l.Pod.Name, got, want)
	}
}
