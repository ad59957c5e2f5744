package supervisor

import (
	"slices"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// A node-level VM is gone when its process has ended and its own cgroup is empty or removed.
// Helpers such as virtiofsd and swtpm can outlive the emulator there.

// leftCgroups returns the own cgroups of the ended VM processes of all ties.
func (s *Supervisor) leftCgroups() (all []string) {
	for _, t := range s.ties {
		all = append(all, t.LeftCgroups...)
	}
	return all
}

// readLeftCgroups finds the cgroups with a remaining process. A cgroup with the process of a
// running domain belongs to this domain now, because names of cgroups return.
func (s *Supervisor) readLeftCgroups(result *scanResult, cgroups []string) {
	for _, cgroup := range cgroups {
		members, err := s.Processes.Members(cgroup)
		if err != nil {
			s.Logger.Warn("the agent does not know whether a cgroup of a VM is empty",
				"cgroup", cgroup, "error", err)
		}
		reused := slices.ContainsFunc(members, func(p host.Process) bool {
			_, runs := result.domains[p.ID()]
			return runs
		})
		result.emptied[cgroup] = err == nil && len(members) == 0
		result.populated[cgroup] = err != nil || len(members) > 0 && !reused
	}
}

// remainingHelpers returns the cgroup of an ended VM with remaining processes as a reason to wait,
// and scans again later. Empty: there is none.
func (s *Supervisor) remainingHelpers(t *managedTie, result *scanResult) string {
	at := slices.IndexFunc(t.LeftCgroups, func(cgroup string) bool {
		populated, read := result.populated[cgroup]
		return populated || !read
	})
	if at < 0 {
		return ""
	}
	s.scanLater(t, &t.helperScanDue, helperDelay)
	return "the VM's helpers in cgroup " + t.LeftCgroups[at]
}

// forgetEmptied removes the empty cgroups from the ties: a launcher can run any number of VMs.
func (s *Supervisor) forgetEmptied(result *scanResult) {
	for _, t := range s.ties {
		isEmptied := func(cgroup string) bool { return result.emptied[cgroup] }
		if slices.ContainsFunc(t.LeftCgroups, isEmptied) {
			s.step(t, tie.Scanned{Emptied: result.emptied})
		}
	}
}
