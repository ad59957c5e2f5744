package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// libvirtd is dead: its record stays after the end of the VM, and another process gets the pid.
func TestStaleRecordWithAReusedPID(t *testing.T) {
	daemon := []string{"/usr/sbin/virtqemud", "--timeout", "120"}
	for name, c := range map[string]struct {
		args      []string // empty: the process blocks the reading of its command line
		executed  string   // emulator
		younger   bool     // than the record
		confirmed bool
	}{
		"process of the node":      {args: []string{"rsync", "-a", "/srv"}, confirmed: true},
		"child of libvirt":         {args: daemon},
		"younger child of libvirt": {args: daemon, younger: true, confirmed: true},
		"wrapper of an emulator":   {args: []string{"sh", "/opt/wrapper", "-uuid", domainUUID}},
		"hidden":                   {},
		"younger and hidden":       {younger: true, confirmed: true},
		"emulator of another VM": {
			args:     []string{"qemu-kvm", "-uuid", "a4e2f9d1-6f06-4c8b-9d8f-5a1c2b3d4e5f"},
			executed: "qemu-kvm", confirmed: true,
		},
		"hidden emulator":         {executed: "qemu-kvm"},
		"younger hidden emulator": {executed: "qemu-kvm", younger: true, confirmed: true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hangingArguments{blocked: map[int]chan struct{}{}}
			change := func(c *supervisor.Config) { h.Processes, c.Processes = c.Processes, h }
			inBubble(t, change, func(r *rig) {
				l := r.launch("vm", withDomain)
				vm := r.startDomain("/machine/x")
				r.exit(vm, "SIGKILL")
				other := r.kernel.Start(vm.PID, "/system.slice/other", host.Rlimit{})
				r.kernel.SetArguments(vm.PID, c.args...)
				release := make(chan struct{})
				defer close(release)
				if len(c.args) == 0 {
					h.block(vm.PID, release)
				}
				if c.younger {
					r.domains.Predate(other)
				}
				r.tracker.Exec(vm, "")
				r.tracker.Exec(other, c.executed)
				r.requestStop(l)
				r.advance(time.Hour)
				if r.stopRequested(l) == c.confirmed {
					t.Errorf("stop confirmed: %t, want %t", !c.confirmed, c.confirmed)
				}
				r.expectWait(!c.confirmed)
				r.expectSignals(vm)
			})
		})
	}
}
