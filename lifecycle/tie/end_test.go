package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The answer about an earlier process of the domain can come after the end of the next one. Only
// the first answer counts, because a restarted agent asks again.
func TestReasonOfAnotherProcess(t *testing.T) {
	domain := &tie.Domain{Name: "one", UUID: "uuid-one"}
	first, second := host.ProcessAt(7, 100), host.ProcessAt(8, 200)
	current := newTie(enforceTerms())
	for _, c := range []struct {
		in     tie.Input
		state  vmfile.State
		reason vmfile.Reason
	}{
		{tie.VMStarted{VM: tie.VM{Process: first, Domain: domain}}, vmfile.Running, ""},
		{tie.VMEnded{Process: first}, vmfile.Ending, ""},
		{tie.VMStarted{VM: tie.VM{Process: second, Domain: domain}}, vmfile.Running, ""},
		{tie.EndExplained{Process: first, Reason: vmfile.Destroyed}, vmfile.Running, ""},
		{tie.VMEnded{Process: second}, vmfile.Ending, ""},
		{tie.EndExplained{Process: first, Reason: vmfile.Destroyed}, vmfile.Ending, ""},
		{
			tie.EndExplained{Process: second, Reason: vmfile.Shutdown},
			vmfile.Ended, vmfile.Shutdown,
		},
		{
			tie.EndExplained{Process: second, Reason: vmfile.Unknown},
			vmfile.Ended, vmfile.Shutdown,
		},
	} {
		current, _ = tie.Step(current, booted, c.in)
		if vm := current.DomainState(); vm.State != c.state || vm.Reason != c.reason {
			t.Errorf("after %T: %+v, want %s %q", c.in, vm, c.state, c.reason)
		}
	}
}

// A step leaves the tie before it unchanged.
func TestReasonChangesNoEarlierTie(t *testing.T) {
	p := host.ProcessAt(7, 100)
	start := tie.VMStarted{VM: tie.VM{Process: p, Domain: &tie.Domain{Name: "one"}}}
	started, _ := tie.Step(newTie(enforceTerms()), booted, start)
	ended, _ := tie.Step(started, booted, tie.VMEnded{Process: p})
	_, _ = tie.Step(ended, booted, tie.EndExplained{Process: p, Reason: vmfile.Crashed})
	if vm := ended.DomainState(); vm.State != vmfile.Ending {
		t.Errorf("the earlier tie has %+v", vm)
	}
}
