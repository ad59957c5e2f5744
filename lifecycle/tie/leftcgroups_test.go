package tie_test

import (
	"slices"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The cgroup of an ended VM matters until a scan finds nothing left.
func TestLeftCgroups(t *testing.T) {
	process := func(pid int) host.Process { return host.Process{PID: pid} }
	at := tie.New(tie.Launcher{}, tie.Terms{Enforce: true}, 1)
	step := func(in tie.Input) { at, _ = tie.Step(at, 2, in) }
	expect := func(when string, want ...string) {
		t.Helper()
		if !slices.Equal(at.LeftCgroups, want) {
			t.Errorf("%s: %q, want %q", when, at.LeftCgroups, want)
		}
	}
	d := &tie.Domain{Name: "one"}
	step(tie.VMStarted{VM: tie.VM{Process: process(7), Domain: d, OwnCgroup: "/own"}})
	step(tie.VMStarted{VM: tie.VM{Process: process(8), Domain: d, OwnCgroup: "/other"}})
	step(tie.VMStarted{VM: tie.VM{Process: process(9)}})
	expect("VMs run")
	before := at
	step(tie.VMEnded{Process: process(7)})
	step(tie.VMEnded{Process: process(9)})
	step(tie.VMReassigned{Process: process(8)})
	expect("a VM of the tie has ended", "/own")
	if len(before.LeftCgroups) > 0 {
		t.Error("Step has changed its argument")
	}
	step(tie.VMStarted{VM: tie.VM{Process: process(10), Domain: d, OwnCgroup: "/next"}})
	step(tie.VMEnded{Process: process(10)})
	expect("a second VM has ended", "/own", "/next")
	step(tie.VMStarted{VM: tie.VM{Process: process(11), Domain: d, OwnCgroup: "/next"}})
	step(tie.VMEnded{Process: process(11)})
	expect("a third VM in the cgroup of the second has ended", "/own", "/next")
	step(tie.Scanned{Emptied: map[string]bool{"/next": true}})
	expect("its cgroup is empty", "/own")
	step(tie.StopRequested{})
	expect("the scan is outstanding", "/own")
	step(tie.Scanned{ID: at.PendingScan()})
	expect("nothing is left")
}
