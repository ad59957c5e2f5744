package tie

import (
	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// DomainEnd is the end of the last node-level VM process of a launcher.
type DomainEnd struct {
	host.Process
	Domain Domain        `json:"domain"`
	Reason vmfile.Reason `json:"reason,omitempty"` // empty: libvirt's answer is outstanding
}

// ExplainEnd asks libvirt for the reason of the end. The answer comes as [EndExplained].
type ExplainEnd struct{ End DomainEnd }

func (ExplainEnd) action() {}

// EndExplained has the reason for the end of a node-level VM process.
type EndExplained struct {
	Process host.Process
	Reason  vmfile.Reason
}

func (i EndExplained) apply(t *Tie, _ *step) {
	if end := t.LastEnd; end != nil && end.Same(i.Process) && end.Reason == "" {
		explained := *end // the tie before the step shares the pointer
		explained.Reason = i.Reason
		t.LastEnd = &explained
	}
}

// recordEnd records the end of a node-level VM process. libvirt calls an end by
// SIGTERM a shutdown, so the agent's own signal is the reason.
func (t *Tie) recordEnd(v *VM, s *step) {
	if v.Domain == nil {
		return
	}
	t.LastEnd = &DomainEnd{Process: v.Process, Domain: *v.Domain}
	if v.Stage >= StageTerm {
		t.LastEnd.Reason = vmfile.Terminated
		return
	}
	s.act(ExplainEnd{*t.LastEnd})
}

// DomainState returns the state of the launcher's node-level VM.
func (t *Tie) DomainState() vmfile.VM {
	for _, v := range t.VMs {
		if v.Domain != nil {
			return vmfile.VM{
				State: vmfile.Running, Domain: v.Domain.Name, PID: v.PID, Start: v.Ticks(),
			}
		}
	}
	if t.LastEnd == nil {
		return vmfile.VM{State: vmfile.Absent}
	}
	vm := vmfile.VM{
		State: vmfile.Ended, Domain: t.LastEnd.Domain.Name, PID: t.LastEnd.PID,
		Start: t.LastEnd.Ticks(), Reason: t.LastEnd.Reason,
	}
	if vm.Reason == "" {
		vm.State = vmfile.Ending
	}
	return vm
}
