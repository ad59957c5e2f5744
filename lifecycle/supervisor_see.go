package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// argumentsTimeout is how long a process's command line may take to read, and
	// lookTimeout how long all of those that a look wants to know.
	argumentsTimeout = time.Second
	lookTimeout      = 2 * time.Second

	// maxReading bounds the command lines that are being read. A process can keep
	// who reads its own waiting.
	maxReading = 64
)

// view is what a look sees.
type view struct {
	emulators []Tracked
	groups    map[uint64]bool // that have any process
	probes    map[Process]bool
	domains   map[Process]Domain
	own       map[Process]string // cgroups of domains

	// unseen are the groups that have processes in their cgroup which the tracker
	// does not know.
	unseen map[uint64]bool

	// domainsUnknown is set where libvirt's notes or a command line could not be
	// read: then it is not known which process runs a domain.
	domainsUnknown bool
}

// see asks the tracker and libvirt. It does not know the ties: known are the VM
// processes that they hold on to, and full the groups that have enough of them.
func (s *Supervisor) see(ctx context.Context, known map[Process]bool, full map[uint64]bool, cgroups map[uint64]string, declared bool) (*view, error) {
	v := &view{
		groups: map[uint64]bool{}, unseen: map[uint64]bool{}, probes: map[Process]bool{},
		domains: map[Process]Domain{}, own: map[Process]string{},
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	running := s.running(v, declared) // listed first: what runs then is tracked already
	all, complete, err := s.Tracker.Snapshot()
	if err != nil {
		return v, fmt.Errorf("list the processes that are tracked: %w", err)
	}
	if !complete {
		s.seeUnseen(v, all, cgroups)
	}
	for _, p := range all {
		v.groups[p.Group] = true
		if p.Executable == "" {
			continue
		}
		v.emulators = append(v.emulators, p)
		switch d, noted := noted(p, running); {
		case noted:
			s.seeDomain(ctx, v, d, p.Process)
		case p.Group != 0 && !known[p.name()] && !full[p.Group]:
			s.seeProbe(ctx, v, p.Process)
		}
	}
	return v, nil
}

// seeUnseen looks for processes that the tracker had no room for. Emulators elsewhere
// have been told when they started.
func (s *Supervisor) seeUnseen(v *view, all []Tracked, cgroups map[uint64]string) {
	tracked := map[Process]bool{}
	for _, p := range all {
		tracked[p.name()] = true
	}
	for group, cgroup := range cgroups {
		members, err := s.Processes.Members(cgroup)
		v.unseen[group] = err != nil || slices.ContainsFunc(members, func(p Process) bool { return !tracked[p.name()] })
	}
}

// running lists the domains that libvirt has noted as running, if that matters.
func (s *Supervisor) running(v *view, declared bool) []Domain {
	if !declared || s.Domains == nil {
		return nil
	}
	running, err := s.Domains.Running()
	if err != nil {
		v.domainsUnknown = true
		s.Logger.Warn("not all domains of the node's libvirt can be listed", "error", err)
	}
	return running
}

// noted returns the domain that has the process's pid in libvirt's note. A process of
// a pod is none of the node's libvirt.
func noted(p Tracked, running []Domain) (Domain, bool) {
	at := slices.IndexFunc(running, func(d Domain) bool { return d.PID == p.PID })
	if at < 0 || p.Group != 0 && !p.Bound {
		return Domain{}, false
	}
	return running[at], true
}

// seeDomain sees whether a process runs the domain that has its pid in libvirt's note:
// then its command line is of libvirt's making. The note alone can be of a process
// that had the pid before.
func (s *Supervisor) seeDomain(ctx context.Context, v *view, d Domain, p Process) {
	args, err := s.arguments(ctx, p)
	switch {
	case errors.Is(err, ErrGone):
	case err != nil:
		v.domainsUnknown = true
		s.Logger.Warn("it is not known whether a process runs a domain", "pid", p.PID, "domain", d.Name, "error", err)
	case s.Domains.RunBy(d, args):
		v.domains[p.name()], v.own[p.name()] = d, s.ownCgroup(p)
	}
}

// seeProbe sees whether an emulator of a pod is none of its VMs. One of which nothing
// is known is taken for a VM.
func (s *Supervisor) seeProbe(ctx context.Context, v *view, p Process) {
	args, err := s.arguments(ctx, p)
	v.probes[p.name()] = s.isProbe(p, args) || errors.Is(err, ErrGone)
}

// isProbe reports whether an emulator runs without a machine: libvirt starts some, to
// ask them what they can do. They live for a moment.
func (s *Supervisor) isProbe(p Process, args []string) bool {
	old := p.startedBefore(s.Clock.Now().Add(-probeAge))
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

// arguments reads a command line, and does not wait for ever.
func (s *Supervisor) arguments(ctx context.Context, p Process) ([]string, error) {
	if !s.beginReading(p) {
		return nil, fmt.Errorf("process %d: %w", p.PID, errUnread)
	}
	ctx, cancel := context.WithTimeout(ctx, argumentsTimeout)
	defer cancel()
	type answer struct {
		args []string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		args, err := s.Processes.Arguments(p)
		s.endReading(p)
		read <- answer{args, err}
	}()
	select {
	case a := <-read:
		return a.args, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("process %d: %w", p.PID, errUnread)
	}
}

// beginReading notes that a command line is being read. It returns false where that
// is so already, and nobody is known to get an answer, or where too many are.
func (s *Supervisor) beginReading(p Process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading[p.name()] || len(s.reading) >= maxReading {
		return false
	}
	s.reading[p.name()] = true
	return true
}

func (s *Supervisor) endReading(p Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, p.name())
}
