package supervisor

import (
	"fmt"
	"maps"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// reportUnclaimed reports once, for the node, a VM process of a domain without a launcher. The
// launcher may have started and ended while the agent was away. That is a guess, so the agent never
// stops the VM.
func (s *Supervisor) reportUnclaimed(d tie.Domain, p Tracked) {
	_, claimed := s.Registry.Claimant(d.Matches, "")
	for t := range s.withFormer() {
		claimed = claimed || t.othersUnknown && d.Matches(t.Launcher.Domain)
	}
	if !s.reconciled || claimed || s.unclaimed[p.ID()] || !s.Domains.Declarable(d) {
		return
	}
	s.unclaimed[p.ID()] = true
	v := tie.VM{Executable: p.Executable, Domain: &d}
	message := fmt.Sprintf("%s is unattended: no launcher known to the agent declares its domain, "+
		"and the agent leaves it alone", v.Describe())
	s.Logger.Warn(message, "pid", p.PID, "reason", agentapi.ReasonVMUnattended)
	s.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: agentapi.Warning, Reason: agentapi.ReasonVMUnattended,
		Message: message, Container: agentapi.ContainerRef{PID: p.PID},
	})
}

// forgetUnclaimed forgets the reports about VM processes that have ended.
func (s *Supervisor) forgetUnclaimed(result *scanResult) {
	running := map[host.Process]bool{}
	for _, p := range result.emulators {
		running[p.ID()] = true
	}
	maps.DeleteFunc(s.unclaimed, func(p host.Process, _ bool) bool { return !running[p] })
}
