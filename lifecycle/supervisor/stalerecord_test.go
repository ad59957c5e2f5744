package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// libvirtd is dead: its record stays after the end of the VM, and another process gets the pid.
func TestStaleRecordWithAReusedPID(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		confirmed bool
	}{
		"process of the node":    {[]string{"rsync", "-a", "/srv", "/backup"}, true},
		"child of libvirt":       {[]string{"/usr/sbin/virtqemud", "--timeout", "120"}, false},
		"wrapper of an emulator": {[]string{"sh", "/opt/qemu-wrapper", "-uuid", domainUUID}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				l := r.launch("vm", withDomain)
				vm := r.startDomain("/machine/x")
				r.exit(vm, "SIGKILL")
				r.kernel.Start(vm.PID, "/system.slice/other", host.Rlimit{})
				r.kernel.SetArguments(vm.PID, c.args...)
				r.tracker.Exec(vm, "")
				r.requestStop(l)
				r.advance(5 * time.Minute)
				if r.stopRequested(l) == c.confirmed {
					t.Errorf("stop confirmed: %t, want %t", !c.confirmed, c.confirmed)
				}
				r.expectSignals(vm)
			})
		})
	}
}
