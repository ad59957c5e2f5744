package tie_test

import (
	"slices"
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

// libvirt calls an end by SIGTERM a shutdown, so the tie asks it only about an earlier end.
func TestReasonAfterTheAgentsSignal(t *testing.T) {
	ask := func(a tie.Action) bool { _, ok := a.(tie.ExplainEnd); return ok }
	for _, c := range []struct {
		steps  int // due times after the end of the launcher
		stage  tie.Stage
		state  vmfile.State
		reason vmfile.Reason
	}{
		{0, tie.StageShutdown, vmfile.Ending, ""},
		{1, tie.StageTerm, vmfile.Ended, vmfile.Terminated},
		{2, tie.StageKill, vmfile.Ended, vmfile.Terminated},
	} {
		current, now := newTie(enforceTerms()), booted
		for _, in := range []tie.Input{launcherStarted, nodeStarts, launcherEnded} {
			current, _ = tie.Step(current, now, in)
		}
		for range c.steps {
			now = current.VMs[0].Due
			current, _ = tie.Step(current, now, timePassed)
		}
		if stage := current.VMs[0].Stage; stage != c.stage {
			t.Fatalf("after %d steps: stage %v, want %v", c.steps, stage, c.stage)
		}
		current, actions := tie.Step(current, now, vmEnded)
		if vm := current.DomainState(); vm.State != c.state || vm.Reason != c.reason ||
			slices.ContainsFunc(actions, ask) != (c.reason == "") {
			t.Errorf("after %d steps: %+v, actions %v; want %s %q", c.steps, vm, actions, c.state,
				c.reason)
		}
	}
}

// The end of an earlier VM process is no end of its successor, also after the successor went to
// another launcher. A VM process in the pod changes no end.
func TestEndOfTheLastDomain(t *testing.T) {
	next := tie.VMStarted{VM: nodeVM(8)}
	current := newTie(enforceTerms())
	for _, c := range []struct {
		in    tie.Input
		state vmfile.State
	}{
		{nodeStarts, vmfile.Running},
		{vmEnded, vmfile.Ending},
		{tie.EndExplained{Process: process(7), Reason: vmfile.Shutdown}, vmfile.Ended},
		{tie.VMStarted{VM: podVM(9)}, vmfile.Ended},
		{next, vmfile.Running},
		{tie.VMReassigned{Process: process(8)}, vmfile.Absent},
	} {
		current, _ = tie.Step(current, booted, c.in)
		if vm := current.DomainState(); vm.State != c.state {
			t.Errorf("after %T: %+v, want %s", c.in, vm, c.state)
		}
	}
}
