package supervisor

import (
	"slices"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// An emulator inherits the group of a libvirt daemon descending from a launcher, although libvirt
// places it outside the cgroup of the launcher's container. With libvirt's record and its command
// line as proof, it is the VM process of the launcher declaring the domain.

// cgroupsByGroup returns the cgroups of the launchers' containers.
func (s *Supervisor) cgroupsByGroup() map[uint64]string {
	all := map[uint64]string{}
	for group, t := range s.byGroup {
		all[group] = t.Launcher.Cgroup
	}
	return all
}

// hasLeft reports whether a process inherits its group and is outside the launcher's cgroup.
func (s *Supervisor) hasLeft(p Tracked, cgroups map[uint64]string) bool {
	launcher := cgroups[p.Group]
	if p.Bound || launcher == "" {
		return false
	}
	now, err := s.Processes.Identify(p.PID)
	return err == nil && now.Same(p.Process) && !host.InCgroup(now.Cgroup, launcher)
}

// recordedDomain returns the domain recorded with the pid of an emulator. An emulator in the cgroup
// of a launcher runs no domain of the node's libvirt.
func (s *Supervisor) recordedDomain(
	result *scanResult, request scanRequest, p Tracked, running []tie.Domain,
) (tie.Domain, bool) {
	at := slices.IndexFunc(running, func(d tie.Domain) bool { return d.PID == p.PID })
	if at < 0 && !result.lacksRecords() || result.containerOf[p.ID()] != "" {
		return tie.Domain{}, false
	}
	inherits := p.Group != 0 && !p.Bound
	if inherits && !s.hasLeft(p, request.cgroups) {
		return tie.Domain{}, false
	}
	if at < 0 { // libvirt may have an unreadable record of it
		result.inherited[p.ID()] = inherits
		return tie.Domain{}, false
	}
	return running[at], true
}

// runsReadableDomain reports whether a process with these arguments runs none of the domains with
// unreadable records. A pod can forge the command line of its own emulator only. Such an emulator
// then has no launcher as before, or belongs to the launcher from which it descends.
func (s *Supervisor) runsReadableDomain(result *scanResult, args []string) bool {
	return !result.domainsUnknown && !slices.ContainsFunc(result.unknown, func(d tie.Domain) bool {
		return !s.Domains.ExcludedBy(d, args)
	})
}

// findNewRecords lists libvirt's records again if an emulator without one is outside its launcher's
// cgroup. libvirt may have written the record and started the emulator after the first list. Then
// the next scan decides.
func (s *Supervisor) findNewRecords(
	result *scanResult, request scanRequest, unknown []Tracked,
) {
	outside := slices.DeleteFunc(slices.Clone(unknown), func(p Tracked) bool {
		return result.probes[p.ID()] || !s.hasLeft(p, request.cgroups)
	})
	if len(outside) == 0 || !request.domainsDeclared || s.Domains == nil {
		return
	}
	running, unreadable, err := s.Domains.Running()
	for _, p := range outside {
		if err != nil || len(unreadable) > len(result.unknown) ||
			slices.ContainsFunc(running, func(d tie.Domain) bool { return d.PID == p.PID }) {
			result.inherited[p.ID()] = true
		}
	}
}

// addByGroup adds the process of a domain without a claim to the launcher from which it descends.
// It reports whether there is such a launcher.
func (s *Supervisor) addByGroup(d tie.Domain, p Tracked) bool {
	t := s.byGroup[p.Group]
	if t == nil || p.Bound || s.claimedElsewhere(t, d) {
		return false
	}
	s.addVM(t, tie.VM{Process: p.Process, Executable: p.Executable})
	return true
}

// reassign takes a VM process from the tie of its group.
func (s *Supervisor) reassign(from *managedTie, p host.Process, d tie.Domain) {
	s.logger(from).Info("a VM process runs the domain of another launcher", "pid", p.PID,
		"domain", d.Name)
	s.step(from, tie.VMReassigned{Process: p})
	s.dropHandle(from, p)
}
