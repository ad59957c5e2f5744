package supervisor

import (
	"fmt"
	"maps"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// A launcher can come and go while the agent is away. Then no tie has its VM. The owner in the
// domain's metadata names the pod, and the VM is an orphan once the pod has no cgroup on the node.

// findGoneOwners finds the owners of domains without a tie that have no cgroup. An unreadable
// hierarchy proves nothing.
func (s *Supervisor) findGoneOwners(result *scanResult, request scanRequest) {
	for p, d := range result.domains {
		if d.Owner.UID == "" || request.known[p] || s.Terms.ProofOnly {
			continue
		}
		exists, err := s.Processes.PodCgroupExists(d.Owner.UID)
		if err != nil {
			s.Logger.Warn("the agent does not know whether the owner of a domain has ended",
				"domain", d.Name, "pod", d.Owner.Namespace+"/"+d.Owner.Name, "error", err)
		}
		result.ownerGone[p] = err == nil && !exists
	}
}

// ownerIsGone reports whether an owner without a cgroup is gone for good: the runtime has listed
// its containers, the pod has no launcher, and no other pod claims the domain.
func (s *Supervisor) ownerIsGone(d tie.Domain) bool {
	_, claimed := s.Registry.Claimant(d.Matches, "")
	return s.reconciled && !claimed && !s.Registry.HasPod(d.Owner.UID)
}

// addOrphan makes a tie for the VM of a gone owner. The supervisor has never seen its launcher.
func (s *Supervisor) addOrphan(d tie.Domain, p Tracked, own string) {
	launcher := tie.Launcher{
		Pod: d.Owner, Container: agentapi.ContainerRef{ID: "orphan-" + d.UUID}, Domain: d.UUID,
	}
	if s.ties[launcher.Container.ID] != nil {
		return // the last process of the domain ends
	}
	t := s.addTie(tie.New(launcher, s.terms, s.Clock.Now()))
	s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable, Domain: &d, OwnCgroup: own})
	s.step(t, tie.LauncherEnded{
		Proof: "the domain's metadata names a pod without a container and a cgroup on the node",
	})
}

// reportUnowned reports once a domain that requires an owner and runs without one. Only the
// runtime's list has all owners.
func (s *Supervisor) reportUnowned(d tie.Domain, p Tracked) {
	_, claimed := s.Registry.Claimant(d.Matches, "")
	if !s.reconciled || claimed || s.unowned[p.ID()] || s.RequiresOwner == nil ||
		!s.RequiresOwner(d.Name) {
		return
	}
	s.unowned[p.ID()] = true
	v := tie.VM{Executable: p.Executable, Domain: &d}
	message := fmt.Sprintf("%s is unattended: the policy requires an owner, and no pod of the node "+
		"declares the domain; the agent leaves it alone", v.Describe())
	s.Logger.Warn(message, "pid", p.PID, "reason", agentapi.ReasonVMUnattended)
	s.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: agentapi.Warning, Reason: agentapi.ReasonVMUnattended,
		Message: message, Container: agentapi.ContainerRef{PID: p.PID},
	})
}

// forgetUnowned forgets the processes that no longer run a domain.
func (s *Supervisor) forgetUnowned(result *scanResult) {
	maps.DeleteFunc(s.unowned, func(p host.Process, _ bool) bool {
		_, runs := result.domains[p]
		return !runs
	})
}
