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

// maxRounds bounds how often processes are listed again while some appear: each
// new one was forked by one that may not have been repaired yet.
const maxRounds = 8

// survey is a look at the memory lock of all processes of a container.
type survey struct {
	kernel host.Kernel
	want   host.Limit                  // what was given
	strict bool                        // no process may have less,
	vms    map[host.Process]host.Limit // nor any of these less than its own
	repair bool

	known     map[host.Process]bool
	read      int                         // how many could be read
	lowest    host.Rlimit                 // over all processes that count, after repair
	first     host.Process                // the first that had less than wanted,
	had       host.Rlimit                 // what it had,
	owed      host.Limit                  // and was to have
	short     int                         // how many had less
	missing   bool                        // one that must have it has it not, after repair
	beyond    map[host.Process]host.Limit // what VM processes have that is more
	launcher  int                         // the container's first process,
	inherited host.Limit                  // and what it has: Unlimited where it was not seen
	repaired  int
	failed    error // of the last repair that did not work
}

// checkMemlock compares the memory lock of a container's processes with what the
// launcher was given, and repairs it if it may. ErrGone: no process is left.
func (g *Guard) checkMemlock(l registry.Launcher, cgroup string) (finding, error) {
	s := survey{
		kernel: g.Kernel, repair: g.Repair, known: map[host.Process]bool{}, vms: l.VMLocks(),
		lowest: host.Rlimit{Soft: host.Unlimited, Hard: host.Unlimited}, beyond: map[host.Process]host.Limit{}, launcher: l.Container.PID, inherited: host.Unlimited,
	}
	if l.Given.Memlock != nil {
		s.want = *l.Given.Memlock
	}
	var err error
	if s.strict, err = g.strict(l, cgroup, s.want); err != nil {
		return finding{}, err
	}
	for range maxRounds {
		fresh, err := s.round(g, cgroup)
		if err != nil {
			return finding{}, err
		}
		if fresh == 0 || s.read > 0 && s.repaired == 0 {
			break
		}
	}
	if s.read == 0 {
		return finding{}, fmt.Errorf("the processes of cgroup %s vanish before they can be looked at", cgroup)
	}
	g.learn(l, &s)
	f := finding{setting: agentapi.MemlockSetting, seen: s.lowest.Soft.String()}
	if l.Given.Memlock != nil {
		s.judge(&f, l)
	}
	return f, nil
}

// strict reports whether every process must have what the launcher was given. The
// container's first process shows whether the limit arrived. Where it did, a
// process that has less was given less by itself, or by what manages the VM:
// libvirt and virt-handler set QEMU's limit. Where it did not, or did not at an
// earlier look, others have inherited what was missing. A VM process must have it in
// any case: it is what the limit is for.
func (g *Guard) strict(l registry.Launcher, cgroup string, want host.Limit) (bool, error) {
	was := l.Setting(agentapi.MemlockSetting)
	if was != nil && (was.Status == agentapi.StatusDiffers || was.Status == agentapi.StatusRepaired) {
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
	return !has.Covers(want), err
}

// round looks at the processes that were not known before, and returns how many
// those were.
func (s *survey) round(g *Guard, cgroup string) (fresh int, err error) {
	procs, err := g.processes(cgroup)
	if err != nil {
		return 0, err
	}
	for p := range s.vms { // some live elsewhere
		procs = append(procs, p)
	}
	for _, p := range procs {
		p = p.ID()
		if s.known[p] {
			continue
		}
		s.known[p] = true
		fresh++
		if err := s.look(p); err != nil && !errors.Is(err, host.ErrGone) {
			return 0, err
		}
	}
	return fresh, nil
}

// look reads the limit of a process and repairs it.
func (s *survey) look(p host.Process) error {
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
			s.first, s.had, s.owed = p, has, want
		}
		if !s.strict && !vm {
			return nil
		}
		has = s.fix(p, has, want)
		s.missing = s.missing || !has.Covers(want)
	}
	if p.PID == s.launcher {
		s.inherited = has.Soft
	}
	if vm && has.Soft > want {
		s.beyond[p.ID()] = has.Soft
	}
	s.lowest = host.Rlimit{Soft: min(s.lowest.Soft, has.Soft), Hard: min(s.lowest.Hard, has.Hard)}
	return nil
}

// fix raises the limit if it may, and returns what the process has then. One that
// is gone needs no more.
func (s *survey) fix(p host.Process, has host.Rlimit, want host.Limit) host.Rlimit {
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

// learn enters what VM processes have beyond what is known, and beyond what they have
// from their launcher.
func (g *Guard) learn(l registry.Launcher, s *survey) {
	if len(s.beyond) == 0 || l.Ceiling == nil {
		return
	}
	g.Registry.Update(l.Container.ID, func(now *registry.Launcher) {
		for vm, has := range s.beyond {
			if has > s.inherited {
				now.LearnLock(vm, has)
			}
		}
	})
}

// judge says what the survey means for a launcher that was given a limit.
func (s *survey) judge(f *finding, l registry.Launcher) {
	switch {
	case !s.missing && s.repaired == 0:
		s.confirm(f, l)
	case !s.missing:
		f.status, f.message, f.repair = agentapi.StatusRepaired, s.message(), true
		f.event = &agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonLimitRepaired, Message: s.summary()}
	default:
		f.status, f.message = agentapi.StatusDiffers, s.message()
		f.event = &agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonLimitMissing, Message: s.summary()}
	}
}

// confirm says that the limit is there.
func (s *survey) confirm(f *finding, l registry.Launcher) {
	f.status = agentapi.StatusApplied
	if s.short > 0 {
		f.message = fmt.Sprintf("%d of %d processes may lock less than the %s given, for example process %d has %s: "+
			"lowered after the start, left alone", s.short, len(s.known), s.owed, s.first.PID, s.had.Soft)
	}
	if was := l.Setting(agentapi.MemlockSetting); was != nil && keeps(was.Status) {
		f.status, f.message = was.Status, was.Message
	}
}

// keeps reports whether a status tells more than "applied" of a limit that is
// there.
func keeps(s agentapi.Status) bool {
	return s == agentapi.StatusYielded || s == agentapi.StatusRepaired
}

// message tells all, for users and the log.
func (s *survey) message() string {
	return fmt.Sprintf("%d of %d processes may lock less than the %s given: process %d had %s (hard %s)",
		s.short, len(s.known), s.owed, s.first.PID, s.had.Soft, s.had.Hard) + s.done(s.failed)
}

// summary tells it without what differs from one time to the next, so that equal
// events are counted as one.
func (s *survey) summary() string {
	why := s.failed
	if errno, ok := errors.AsType[syscall.Errno](s.failed); ok {
		why = errno
	}
	return fmt.Sprintf("processes of the launcher may lock less than the %s given", s.owed) + s.done(why)
}

func (s *survey) done(why error) string {
	switch {
	case s.failed != nil:
		return fmt.Sprintf("; repair failed: %v", why)
	case s.repaired > 0:
		return "; raised with prlimit"
	}
	return `; policy says memlock.repair: "report", so nothing was done`
}
