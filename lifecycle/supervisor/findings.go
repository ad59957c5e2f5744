package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// scanTimeout is how long all command lines that a look wants to know may take.
const scanTimeout = 2 * time.Second

// scanRequest is what a look is to find out. It is put together by the goroutine of Run,
// and answered in another.
type scanRequest struct {
	known           map[host.Process]bool   // VM processes that are held on to
	full            map[uint64]bool         // groups that have enough of them
	launchers       map[string]tie.Launcher // launchers whose cgroup may have to be looked at, by container ID
	domainsDeclared bool                    // any launcher declares a domain
}

// scanResult is what a look sees.
type scanResult struct {
	emulators []Tracked
	groups    map[uint64]bool // that have any process
	probes    map[host.Process]bool
	unread    map[host.Process]bool // emulators of which it is not known yet whether they are probes
	domains   map[host.Process]tie.Domain
	vmCgroups map[host.Process]string // cgroups of domains

	// containerOf are the processes of launchers that have no group, with their
	// container's ID, and crowded the containers that have any.
	containerOf map[host.Process]string
	occupied    map[string]bool

	// untracked are the containers that have processes in their cgroup which the
	// tracker does not know.
	untracked map[string]bool

	// unclear are processes that may run the domain which has their pid in libvirt's
	// note, or may be about to.
	unclear []domainProcess

	// domainsUnknown is set where not all of libvirt's notes could be read.
	domainsUnknown bool
}

// domainProcess is a domain with the process that has its pid in libvirt's note.
type domainProcess struct {
	domain  tie.Domain
	process host.Process
}

func newScanResult() *scanResult {
	return &scanResult{
		groups: map[uint64]bool{}, probes: map[host.Process]bool{}, unread: map[host.Process]bool{},
		domains: map[host.Process]tie.Domain{}, vmCgroups: map[host.Process]string{},
		containerOf: map[host.Process]string{}, occupied: map[string]bool{}, untracked: map[string]bool{},
	}
}

// scan asks the tracker and libvirt. It does not know the ties.
func (s *Supervisor) scan(ctx context.Context, q scanRequest) (*scanResult, error) {
	v := newScanResult()
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	running := s.runningDomains(v, q) // listed first: what runs then is tracked already
	all, complete, err := s.Tracker.Snapshot()
	if err != nil {
		return v, fmt.Errorf("list the processes that are tracked: %w", err)
	}
	s.readCgroups(v, q, all, complete)
	var noted []domainProcess
	var unknown []Tracked
	for _, p := range all {
		v.groups[p.Group] = true
		if p.Executable == "" {
			continue
		}
		v.emulators = append(v.emulators, p)
		if d, ok := v.recordedDomain(p, running); ok {
			noted = append(noted, domainProcess{d, p.Process})
		} else if v.inLauncher(p) && !q.known[p.ID()] && !q.full[p.Group] {
			unknown = append(unknown, p)
		}
	}
	s.findProbes(ctx, v, unknown)
	for _, c := range noted {
		s.verifyDomain(ctx, v, c)
	}
	s.findStartingDomains(ctx, v, all, running)
	return v, nil
}

// readCgroups looks into cgroups: for processes that the tracker had no room for, and for
// those of launchers that it had none for. Emulators elsewhere have been told when they
// started.
func (s *Supervisor) readCgroups(v *scanResult, q scanRequest, all []Tracked, complete bool) {
	tracked := map[host.Process]bool{}
	for _, p := range all {
		tracked[p.ID()] = true
	}
	for id, m := range q.launchers {
		if m.Cgroup == "" || m.Group != 0 && complete {
			continue
		}
		members, err := s.Processes.Members(m.Cgroup)
		unknown := slices.ContainsFunc(members, func(p host.Process) bool { return !tracked[p.ID()] })
		v.untracked[id] = err != nil || unknown && !complete
		if m.Group == 0 {
			v.occupied[id] = err != nil || len(members) > 0
			for _, p := range members {
				v.containerOf[p.ID()] = id
			}
		}
	}
}

// inLauncher reports whether a process belongs to a launcher, as far as is seen.
func (v *scanResult) inLauncher(p Tracked) bool { return p.Group != 0 || v.containerOf[p.ID()] != "" }

func (v *scanResult) readerOf(p Tracked) argumentsReader {
	return argumentsReader{group: p.Group, container: v.containerOf[p.ID()]}
}

// runningDomains lists the domains that libvirt has noted as running, if that matters.
func (s *Supervisor) runningDomains(v *scanResult, q scanRequest) []tie.Domain {
	if !q.domainsDeclared || s.Domains == nil {
		return nil
	}
	running, err := s.Domains.Running()
	if err != nil {
		v.domainsUnknown = true
		s.Logger.Warn("not all domains of the node's libvirt can be listed", "error", err)
	}
	return running
}

// recordedDomain returns the domain that has the process's pid in libvirt's note. A process of
// a pod is none of the node's libvirt.
func (v *scanResult) recordedDomain(p Tracked, running []tie.Domain) (tie.Domain, bool) {
	at := slices.IndexFunc(running, func(d tie.Domain) bool { return d.PID == p.PID })
	if at < 0 || v.inLauncher(p) && !p.Bound {
		return tie.Domain{}, false
	}
	return running[at], true
}

// verifyDomain sees whether a process runs the domain that has its pid in libvirt's note:
// then its command line is of libvirt's making. The note alone can be of a process
// that had the pid before.
func (s *Supervisor) verifyDomain(ctx context.Context, v *scanResult, c domainProcess) {
	args, err := s.readArguments(ctx, c.process, argumentsReader{domain: c.domain.UUID})
	switch {
	case errors.Is(err, host.ErrGone):
	case err != nil:
		v.unclear = append(v.unclear, c)
		s.Logger.Warn("it is not known whether a process runs a domain", "pid", c.process.PID, "domain", c.domain.Name, "error", err)
	case s.Domains.RunBy(c.domain, args):
		v.domains[c.process.ID()], v.vmCgroups[c.process.ID()] = c.domain, s.vmCgroup(c.process)
	}
}

// findStartingDomains sees what libvirt has made for a domain and what is no emulator yet: it
// notes the pid of its child, places and labels that, and only then lets it execute one.
func (s *Supervisor) findStartingDomains(ctx context.Context, v *scanResult, all []Tracked, running []tie.Domain) {
	others := map[int]bool{}
	for _, p := range all {
		others[p.PID] = others[p.PID] || p.Executable != "" || p.Group != 0 && !p.Bound
	}
	for _, d := range running {
		if others[d.PID] {
			continue
		}
		p, err := s.Processes.Identify(d.PID)
		switch {
		case errors.Is(err, host.ErrGone):
		case err != nil:
			v.domainsUnknown = true
			s.Logger.Warn("it is not known whether a domain starts", "pid", d.PID, "domain", d.Name, "error", err)
		case v.containerOf[p.ID()] == "" && !s.isZombie(ctx, p, d):
			v.unclear = append(v.unclear, domainProcess{d, p})
		}
	}
}

// isZombie reports whether a process has no memory any more: it is a zombie.
func (s *Supervisor) isZombie(ctx context.Context, p host.Process, d tie.Domain) bool {
	args, err := s.readArguments(ctx, p, argumentsReader{domain: d.UUID})
	return errors.Is(err, host.ErrGone) || err == nil && strings.Join(args, "") == ""
}

// findProbes sees which emulators of pods are none of their VMs. They are read at once,
// so that none has to wait for all that do not answer, and those for which there was no
// room after the others.
func (s *Supervisor) findProbes(ctx context.Context, v *scanResult, emulators []Tracked) {
	reads := make([]*argumentsRead, len(emulators))
	for i, p := range emulators {
		reads[i] = s.startRead(p.Process, v.readerOf(p))
	}
	for i, p := range emulators {
		if reads[i] != nil {
			s.classifyEmulator(ctx, v, p.ID(), reads[i])
		}
	}
	for i, p := range emulators {
		if reads[i] == nil {
			s.classifyEmulator(ctx, v, p.ID(), s.startRead(p.Process, v.readerOf(p)))
		}
	}
}

// classifyEmulator sees whether an emulator of a pod is none of its VMs. One that keeps who reads
// its command line waiting is taken for a VM.
func (s *Supervisor) classifyEmulator(ctx context.Context, v *scanResult, p host.Process, r *argumentsRead) {
	args, err := r.await(ctx, p)
	v.unread[p] = errors.Is(err, errNotReadYet)
	v.probes[p] = s.isProbe(p, args) || errors.Is(err, host.ErrGone)
}

// isProbe reports whether an emulator runs without a machine: libvirt starts some, to
// ask them what they can do. They live for a moment.
func (s *Supervisor) isProbe(p host.Process, args []string) bool {
	old := p.StartedBefore(s.Clock.Now().Add(-maxProbeAge))
	return withoutMachine(args) && !old
}

// withoutMachine reports whether QEMU is told to emulate no machine, and nothing else.
func withoutMachine(args []string) bool {
	none := false
	for i, arg := range args {
		if i+1 < len(args) && slices.Contains([]string{"-machine", "--machine", "-M", "--M"}, arg) {
			kind, _, _ := strings.Cut(args[i+1], ",")
			if none = strings.TrimPrefix(kind, "type=") == "none"; !none {
				return false
			}
		}
	}
	return none
}
