package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// stopWait is the time in which a stop without a known VM process waits.
type stopWait struct {
	since    host.Boottime // 0: it does not wait
	reported []string      // causes
}

// reportWait reports a stop waiting for longer than the orderly period, once for each cause.
func (s *Supervisor) reportWait(t *managedTie, cause string, orderly time.Duration) {
	now := s.Clock.Now()
	if t.wait.since == 0 {
		t.wait.since = now
	}
	age := now.Sub(t.wait.since)
	if age < orderly || slices.Contains(t.wait.reported, cause) {
		return
	}
	t.wait.reported = append(t.wait.reported, cause)
	s.report(t, tie.Report{
		Type: agentapi.Warning, Reason: agentapi.ReasonVMStuck,
		Message: fmt.Sprintf("the agent knows no VM process, and the stop has waited %s for %s",
			age.Round(time.Second), cause),
	})
}

// unknownDomain returns the reason why the domain of a launcher that declares one may run in an
// unknown process. Empty: there is none.
func (s *Supervisor) unknownDomain(t *managedTie, result *scanResult) string {
	if result.domainsUnknown {
		return "libvirt's records, because the agent cannot list them"
	}
	for _, d := range result.unknown {
		if d.MayMatch(t.Launcher.Domain) {
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

// unprovenEnd returns the reason why the scan does not prove the end of all VM processes of a
// launcher. Empty: it proves that.
func (s *Supervisor) unprovenEnd(t *managedTie, result *scanResult) string {
	unplaced := t.Launcher.Cgroup == "" && t.LauncherGone == ""
	why := s.unaccountedDomain(t, result)
	switch {
	case why != "":
		return why
	case unplaced:
		return "the launcher's cgroup, which the agent does not know yet"
	case result.untracked[t.Launcher.Container.ID]:
		return "processes of the launcher that the tracker does not know"
	}
	if why = s.remainingHelpers(t, result); why != "" {
		return why
	}
	return s.unknownEmulator(t, result)
}

// unaccountedDomain returns the reason why a domain of the launcher may run or start without a
// known VM process. Empty: there is none.
func (s *Supervisor) unaccountedDomain(t *managedTie, result *scanResult) string {
	if t.Launcher.Domain == "" {
		return ""
	}
	if why := s.unknownDomain(t, result); why != "" {
		return why
	}
	restoredEnd := t.restored && t.LauncherGone != "" && !s.Terms.ProofOnly
	if (t.endUnseen || restoredEnd) && !s.reconciled {
		return "the container runtime, which has not listed the node's launchers yet"
	}
	known := s.knownVMs()
	for p, d := range result.domains {
		if launcher, _, _ := s.launcherOf(d, p); launcher == t && !known[p] {
			return "the process of domain " + d.Name + ", which the agent cannot watch"
		}
	}
	return ""
}

// unknownEmulator returns the reason why an emulator of the launcher is no known VM process. Empty:
// there is no such emulator.
func (s *Supervisor) unknownEmulator(t *managedTie, result *scanResult) string {
	known := s.knownVMs()
	for _, p := range result.emulators {
		id := p.ID()
		runs := s.tieOf(result, p) == t && !result.probes[id]
		switch {
		case !runs || known[id]:
		case result.inherited[id]:
			return "an emulator outside the launcher, because its domain is unknown"
		case result.unread[id]:
			return "an emulator of the launcher, because its command line was not read yet"
		case len(t.VMs) >= maxVMs:
			return "an emulator of the launcher, which has too many"
		default:
			return "an emulator of the launcher, which the agent cannot watch"
		}
	}
	if len(t.pending) > 0 {
		return "an emulator of the launcher, about which no scan has decided"
	}
	return ""
}

// podHasOtherVMs reports whether another launcher of the pod has VM processes. All containers of a
// pod share one stop request.
func (s *Supervisor) podHasOtherVMs(t *managedTie) bool {
	for _, other := range s.ties {
		if other != t && other.Launcher.Pod.UID == t.Launcher.Pod.UID && len(other.VMs) > 0 {
			return true
		}
	}
	return false
}
