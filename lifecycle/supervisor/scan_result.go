package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// scanTimeout bounds the reading of all command lines of a scan.
const scanTimeout = 2 * time.Second

// scanRequest is the input of a scan. The goroutine of Run makes it, and another one runs the scan.
type scanRequest struct {
	known           map[host.Process]bool   // VM processes of the ties
	full            map[uint64]bool         // groups with enough VM processes
	cgroups         map[uint64]string       // of launchers, by group
	launchers       map[string]tie.Launcher // by container ID; the scan may read their cgroups
	domainsDeclared bool                    // libvirt's records matter
	leftCgroups     []string                // own cgroups of ended VM processes
}

// scanResult is the output of a scan. Processes are keyed by [host.Process.ID].
type scanResult struct {
	emulators []Tracked
	groups    map[uint64]bool             // groups with a process
	probes    map[host.Process]bool       // emulators without a machine
	unread    map[host.Process]bool       // emulators with a command line not read yet
	domains   map[host.Process]tie.Domain // domains of emulators
	vmCgroups map[host.Process]string     // the cgroups of these domains alone
	ownerGone map[host.Process]bool       // the node has no cgroup of the domain's owner

	// containerOf has the container ID of each process in a launcher without a group. occupied is
	// set for such a container with a process, or with an unreadable cgroup.
	containerOf map[host.Process]string
	occupied    map[string]bool

	// populated has the own cgroups of ended VM processes, true for one with a process.
	// emptied has the empty and the removed ones.
	populated, emptied map[string]bool

	// untracked has the containers with processes unknown to the tracker.
	untracked map[string]bool

	// inherited has emulators outside the cgroup of the launcher from which they descend. They
	// may run a domain of another launcher.
	inherited map[host.Process]bool

	// unclear has processes that may run the domain recorded with their pid, or may start it.
	unclear []domainProcess

	// unknown has domains without readable records. The UUID may be empty. domainsUnknown is set if
	// the supervisor cannot list the records.
	unknown        []tie.Domain
	domainsUnknown bool
}

// domainProcess is a domain and the process with the pid in libvirt's record.
type domainProcess struct {
	domain  tie.Domain
	process host.Process
}

func newScanResult() *scanResult {
	return &scanResult{
		groups:      map[uint64]bool{},
		probes:      map[host.Process]bool{},
		unread:      map[host.Process]bool{},
		domains:     map[host.Process]tie.Domain{},
		vmCgroups:   map[host.Process]string{},
		ownerGone:   map[host.Process]bool{},
		containerOf: map[host.Process]string{},
		occupied:    map[string]bool{},
		untracked:   map[string]bool{},
		populated:   map[string]bool{},
		emptied:     map[string]bool{},
		inherited:   map[host.Process]bool{},
	}
}

// lacksRecords reports whether a domain may have a record that the scan does not have.
func (r *scanResult) lacksRecords() bool { return r.domainsUnknown || len(r.unknown) > 0 }

// mayHaveProcesses reports whether a launcher has any process, or may have one.
func (r *scanResult) mayHaveProcesses(l tie.Launcher) bool {
	id := l.Container.ID
	return l.Group != 0 && r.groups[l.Group] || r.untracked[id] || r.occupied[id]
}

// inLauncher reports whether a process belongs to a launcher.
func (r *scanResult) inLauncher(p Tracked) bool {
	return p.Group != 0 || r.containerOf[p.ID()] != ""
}

// scan compares the tracker's processes with cgroups and with libvirt's records. It does not use
// the ties.
func (s *Supervisor) scan(ctx context.Context, request scanRequest) (*scanResult, error) {
	result := newScanResult()
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	// before the snapshot, which then has their processes
	running := s.runningDomains(result, request)
	all, complete, err := s.Tracker.Snapshot()
	if err != nil {
		return result, fmt.Errorf("list the tracked processes: %w", err)
	}
	s.readCgroups(result, request, all, complete)
	var recorded []domainProcess
	var unknown []Tracked
	for _, p := range all {
		result.groups[p.Group] = true
		if p.Executable == "" {
			continue
		}
		result.emulators = append(result.emulators, p)
		if d, ok := s.recordedDomain(result, request, p, running); ok {
			recorded = append(recorded, domainProcess{d, p.Process})
		} else if result.inLauncher(p) && !request.known[p.ID()] && !request.full[p.Group] {
			unknown = append(unknown, p)
		}
	}
	s.findProbes(ctx, result, unknown)
	s.findNewRecords(result, request, unknown)
	for _, c := range recorded {
		s.verifyDomain(ctx, result, c)
	}
	s.findGoneOwners(result, request)
	s.findStartingDomains(ctx, result, request, all, running)
	s.readLeftCgroups(result, request.leftCgroups)
	return result, nil
}

// readCgroups reads the cgroups of launchers without a group, and of all requested launchers if the
// tracker has missed processes. Emulators elsewhere have an event at their start.
func (s *Supervisor) readCgroups(
	result *scanResult, request scanRequest, all []Tracked, complete bool,
) {
	tracked := map[host.Process]bool{}
	for _, p := range all {
		tracked[p.ID()] = true
	}
	isUntracked := func(p host.Process) bool { return !tracked[p.ID()] }
	for id, l := range request.launchers {
		if l.Cgroup == "" || l.Group != 0 && complete {
			continue
		}
		members, err := s.Processes.Members(l.Cgroup)
		result.untracked[id] = err != nil || !complete && slices.ContainsFunc(members, isUntracked)
		if l.Group == 0 {
			result.occupied[id] = err != nil || len(members) > 0
			for _, p := range members {
				result.containerOf[p.ID()] = id
			}
		}
	}
}

// runningDomains lists the domains that libvirt has recorded as running. It returns none if they do
// not matter.
func (s *Supervisor) runningDomains(result *scanResult, request scanRequest) []tie.Domain {
	if !request.domainsDeclared || s.Domains == nil {
		return nil
	}
	running, unreadable, err := s.Domains.Running()
	result.unknown = unreadable
	if err != nil {
		result.domainsUnknown = true
		s.Logger.Warn("the agent cannot list all domains of the node's libvirt", "error", err)
	}
	return running
}

// verifyDomain checks whether a process runs the domain recorded with its pid. Only the command
// line proves that, because the record can be of a former process with the same pid.
func (s *Supervisor) verifyDomain(ctx context.Context, result *scanResult, c domainProcess) {
	args, err := s.readArguments(ctx, c.process, argumentsReader{domain: c.domain.UUID})
	switch id := c.process.ID(); {
	case errors.Is(err, host.ErrGone), err != nil && s.Domains.Predates(c.domain, c.process):
	case err != nil:
		result.unclear = append(result.unclear, c)
		result.inherited[id] = true
		s.Logger.Warn("the agent does not know whether a process runs a domain",
			"pid", c.process.PID, "domain", c.domain.Name, "error", err)
	case s.Domains.RunBy(c.domain, args):
		result.domains[id], result.vmCgroups[id] = c.domain, s.vmCgroup(c.process)
	}
}

// findStartingDomains finds libvirt's processes for domains before they execute an emulator.
// libvirt records the pid of its child, places and labels the child, and then lets it execute the
// emulator.
func (s *Supervisor) findStartingDomains(
	ctx context.Context, result *scanResult, request scanRequest, all []Tracked,
	running []tie.Domain,
) {
	others := map[int]bool{}
	recorded := func(pid int) bool {
		return slices.ContainsFunc(running, func(d tie.Domain) bool { return d.PID == pid })
	}
	for _, p := range all {
		inPod := recorded(p.PID) && p.Group != 0 && !p.Bound && !s.hasLeft(p, request.cgroups)
		others[p.PID] = others[p.PID] || p.Executable != "" || inPod
	}
	for _, d := range running {
		if others[d.PID] {
			continue
		}
		p, err := s.Processes.Identify(d.PID)
		switch {
		case errors.Is(err, host.ErrGone):
		case err != nil:
			result.unknown = append(result.unknown, d)
			s.Logger.Warn("the agent does not know whether a domain starts",
				"pid", d.PID, "domain", d.Name, "error", err)
		case result.containerOf[p.ID()] == "" && s.mayStart(ctx, p, d):
			result.unclear = append(result.unclear, domainProcess{d, p})
		}
	}
}

// mayStart reports whether a process runs a domain or may still execute its emulator. The record
// can be of a former process with the same pid. A zombie has no command line.
func (s *Supervisor) mayStart(ctx context.Context, p host.Process, d tie.Domain) bool {
	if s.Domains.Predates(d, p) {
		return false
	}
	args, err := s.readArguments(ctx, p, argumentsReader{domain: d.UUID})
	if err != nil {
		return !errors.Is(err, host.ErrGone)
	}
	return s.Domains.MayRunBy(d, args)
}

// undecided reports whether the scan has left open that an emulator is a VM process.
func (r *scanResult) undecided(p host.Process) bool { return r.inherited[p] || r.unread[p] }
