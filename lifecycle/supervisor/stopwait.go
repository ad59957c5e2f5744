package supervisor

import (
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// stopWait is the time in which a stop without a known VM process waits.
type stopWait struct {
	since    host.Boottime // 0: it does not wait
	reported bool
}

// reportWait reports a stop waiting for longer than an orderly end takes, once for each wait.
func (s *Supervisor) reportWait(t *managedTie, cause string) {
	now := s.Clock.Now()
	if t.wait.since == 0 {
		t.wait.since = now
	}
	if t.wait.reported || now.Sub(t.wait.since) < t.Terms.TermPeriod {
		return
	}
	t.wait.reported = true
	s.report(t, tie.Report{
		Type: agentapi.Warning, Reason: agentapi.ReasonVMStuck,
		Message: "the agent knows no VM process, and the stop waits for " + cause,
	})
}

// unknownDomain returns the reason why the launcher's domain may run in an unknown process. Empty:
// there is none.
func (s *Supervisor) unknownDomain(t *managedTie, result *scanResult) string {
	declared := t.Launcher.Domain
	switch {
	case declared == "":
		return ""
	case result.domainsUnknown:
		return "libvirt's records, because the agent cannot list them"
	}
	for _, d := range result.unknown {
		if d.MayMatch(declared) {
			return "libvirt's record of domain " + d.Name + ", because record or process is " +
				"unreadable"
		}
	}
	for _, c := range result.unclear {
		if launcher, _, _ := s.launcherOf(c.domain, c.process); launcher == t {
			return "a process that may start or run domain " + c.domain.Name
		}
	}
	return ""
}
