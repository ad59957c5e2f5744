package guard

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// maxRounds bounds the scans of a container while new processes appear. The parent of a new
// process may have forked it before the repair of its own limit.
const maxRounds = 8

// lockScan scans the memory-lock limits of all processes of a container.
type lockScan struct {
	kernel     host.Kernel
	want       host.Limit                  // granted limit
	requireAll bool                        // every process needs it
	vms        map[host.Process]host.Limit // minimum limits of VM processes
	repair     bool

	known     map[host.Process]bool
	read      int                         // number of readable processes
	lowest    host.Rlimit                 // of all processes that need the limit, after repairs
	first     host.Process                // first process below its required limit
	actual    host.Rlimit                 // its limit before the repair
	required  host.Limit                  // its required limit
	short     int                         // number of processes below their required limit
	missing   bool                        // a process lacks its required limit after repairs
	observed  map[host.Process]host.Limit // limits of VM processes, after repairs
	maximum   host.Limit                  // the policy's; Unlimited: none
	above     []aboveMaximum              // processes with a limit above their maximum
	launcher  int                         // pid of the container's first process
	inherited host.Rlimit                 // limit of the first process, Unlimited if unread
	repaired  int
	failed    error // error of the last failed repair
}

// checkMemlock compares the memory-lock limits of a container's processes with the launcher's
// limit, and raises them if allowed. requireAll: every process needs the limit. ErrGone: no process
// remains.
func (g *Guard) checkMemlock(
	l registry.Launcher, cgroup string, requireAll bool,
) (finding, error) {
	s := lockScan{
		kernel: g.Kernel, repair: g.repairs(), known: map[host.Process]bool{}, vms: l.VMLocks(),
		lowest:   host.Rlimit{Soft: host.Unlimited, Hard: host.Unlimited},
		observed: map[host.Process]host.Limit{}, launcher: l.Container.PID,
		inherited: host.Rlimit{Soft: host.Unlimited, Hard: host.Unlimited},
		maximum:   host.Unlimited,
	}
	if l.Maximum != nil {
		s.maximum = *l.Maximum
	}
	if l.Given.Memlock != nil {
		s.want = *l.Given.Memlock
	}
	var err error
	if s.requireAll, err = g.requiresAll(l, cgroup, s.want); err != nil {
		return finding{}, err
	}
	s.requireAll = s.requireAll || requireAll
	for range maxRounds {
		fresh, err := s.scanNew(g, cgroup)
		if err != nil {
			return finding{}, err
		}
		if fresh == 0 || s.read > 0 && s.repaired == 0 {
			break
		}
	}
	if s.read == 0 {
		return finding{}, fmt.Errorf("the processes of cgroup %s exit before the guard can "+
			"read them", cgroup)
	}
	g.observeLocks(l, &s)
	g.lowerRaised(l, &s)
	f := finding{setting: agentapi.MemlockSetting, seen: s.lowest.Soft.String()}
	if l.Given.Memlock != nil {
		s.evaluate(&f, l)
	}
	return f, nil
}

// repairs reports whether the policy lets the guard raise limits.
func (g *Guard) repairs() bool { return g.Repair != nil && g.Repair() }

// requiresAll reports whether every process needs the launcher's limit. The container's first
// process shows whether the limit took effect. If it did, a process with a lower limit lowered it
// itself or got it from the VM's manager: libvirt and virt-handler set QEMU's limit. If it did not,
// now or at an earlier check, other processes have inherited the missing limit. A VM process always
// needs its own minimum.
func (g *Guard) requiresAll(l registry.Launcher, cgroup string, want host.Limit) (bool, error) {
	if l.LacksLock {
		return true, nil
	}
	procs, err := g.processes(cgroup)
	if err != nil {
		return false, err
	}
	at := slices.IndexFunc(procs, func(p host.Process) bool { return p.PID == l.Container.PID })
	if at < 0 {
		return true, nil
	}
	has, err := g.Kernel.Memlock(procs[at])
	if errors.Is(err, host.ErrGone) {
		return true, nil
	}
	if err != nil || has.Covers(want) {
		return false, err
	}
	g.Registry.Update(l.Container.ID, func(now *registry.Launcher) { now.LacksLock = true })
	return true, nil
}

// scanNew checks the processes not seen before and returns their number.
func (s *lockScan) scanNew(g *Guard, cgroup string) (fresh int, err error) {
	procs, err := g.processes(cgroup)
	if err != nil {
		return 0, err
	}
	for p := range s.vms { // some are outside of the container
		procs = append(procs, p)
	}
	// The first process is raised last. Until then an agent started meanwhile also finds the missing
	// limit.
	isFirst := func(p host.Process) bool { return p.PID == s.launcher }
	if at := slices.IndexFunc(procs, isFirst); at >= 0 {
		first := procs[at]
		procs = append(slices.Delete(procs, at, at+1), first)
	}
	for _, p := range procs {
		p = p.ID()
		if s.known[p] {
			continue
		}
		s.known[p] = true
		fresh++
		if err := s.checkProcess(p); err != nil && !errors.Is(err, host.ErrGone) {
			return 0, err
		}
	}
	return fresh, nil
}

// checkProcess reads the limit of a process and raises it if necessary.
func (s *lockScan) checkProcess(p host.Process) error {
	has, err := s.kernel.Memlock(p)
	if err != nil {
		return err
	}
	s.read++
	want, vm := s.vms[p.ID()]
	if !vm {
		want = s.want
	}
	if !has.Covers(want) {
		if s.short++; s.short == 1 {
			s.first, s.actual, s.required = p, has, want
		}
		if !s.requireAll && !vm {
			return nil
		}
		has = s.raise(p, has, want)
		s.missing = s.missing || !has.Covers(want)
	}
	if p.PID == s.launcher {
		s.inherited = has
	}
	// The agent may have granted more than the maximum of the launcher's creation.
	if maximum := max(s.maximum, want); has.Hard > maximum {
		s.above = append(s.above, aboveMaximum{p, has.Hard, maximum})
	}
	if vm {
		s.observed[p.ID()] = has.Soft
	}
	s.lowest = host.Rlimit{Soft: min(s.lowest.Soft, has.Soft), Hard: min(s.lowest.Hard, has.Hard)}
	return nil
}

// raise raises the limit if allowed, and returns the resulting limit. A process that is gone needs
// none.
func (s *lockScan) raise(p host.Process, has host.Rlimit, want host.Limit) host.Rlimit {
	if !s.repair {
		return has
	}
	switch err := s.kernel.SetMemlock(p, has.Raised(want)); {
	case err == nil:
		s.repaired++
	case !errors.Is(err, host.ErrGone):
		s.failed = err
		return has
	}
	return has.Raised(want)
}

// observeLocks records the limits of VM processes for the node's account. libvirt changes them when
// a device is plugged or unplugged. A limit that the process inherited was not raised.
func (g *Guard) observeLocks(l registry.Launcher, s *lockScan) {
	if len(s.observed) == 0 || l.Ceiling == nil {
		return
	}
	g.Registry.Update(l.Container.ID, func(now *registry.Launcher) {
		for vm, has := range s.observed {
			if has <= s.inherited.Soft {
				has = 0
			}
			now.ObserveLock(vm, has)
		}
	})
}

// evaluate sets the finding of a launcher with a granted limit.
func (s *lockScan) evaluate(f *finding, l registry.Launcher) {
	switch {
	case !s.missing && s.repaired == 0:
		s.setApplied(f, l)
	case !s.missing:
		f.status, f.message, f.repair = agentapi.StatusRepaired, s.message(), true
		f.event = &agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonLimitRepaired,
			Message: s.summary()}
	default:
		f.status, f.message = agentapi.StatusDiffers, s.message()
		if s.failed != nil {
			f.failed = errors.New(f.message)
		}
		f.event = &agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonLimitMissing,
			Message: s.summary()}
	}
}

// setApplied sets the finding of a limit in effect.
func (s *lockScan) setApplied(f *finding, l registry.Launcher) {
	f.status = agentapi.StatusApplied
	if s.short > 0 {
		f.message = fmt.Sprintf("%d of %d processes may lock less than %s, for example process "+
			"%d with %s: "+
			"lowered after the start, left unchanged", s.short, len(s.known), s.required,
			s.first.PID, s.actual.Soft)
	}
	if was := l.Setting(agentapi.MemlockSetting); was != nil && keepsStatus(was.Status) {
		f.status, f.message = was.Status, was.Message
	}
}

// keepsStatus reports whether a status says more than "applied" about a limit in effect.
func keepsStatus(s agentapi.Status) bool {
	return s == agentapi.StatusYielded || s == agentapi.StatusRepaired
}

// message has all details, for users and the log.
func (s *lockScan) message() string {
	return fmt.Sprintf("%d of %d processes may lock less than %s: process %d had %s (hard %s)",
		s.short, len(s.known), s.required, s.first.PID, s.actual.Soft, s.actual.Hard) +
		s.outcome(s.failed)
}

// summary leaves out values of a single check. Equal Events are counted as one.
func (s *lockScan) summary() string {
	why := s.failed
	if errno, ok := errors.AsType[syscall.Errno](s.failed); ok {
		why = errno
	}
	return fmt.Sprintf("processes of the launcher may lock less than %s", s.required) +
		s.outcome(why)
}

func (s *lockScan) outcome(why error) string {
	switch {
	case s.failed != nil:
		return fmt.Sprintf("; repair failed: %v", why)
	case s.repaired > 0:
		return "; raised with prlimit"
	}
	return `; policy says memlock.repair: "report", so nothing was done`
}
