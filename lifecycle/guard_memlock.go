package lifecycle

import (
	"errors"
	"fmt"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// maxRounds bounds how often processes are listed again while some appear: each
// new one was forked by one that may not have been repaired yet.
const maxRounds = 8

// survey is a look at the memory lock of all processes of a container.
type survey struct {
	kernel Kernel
	want   Limit // no process may have less
	repair bool

	known    map[Process]bool
	read     int     // how many could be read
	lowest   Rlimit  // over all processes, after repair
	first    Process // the first that had less than wanted,
	had      Rlimit  // and what it had
	short    int     // how many had less
	repaired int
	failed   error // of the last repair that did not work
}

// checkMemlock compares the memory lock of a container's processes with what the
// launcher was given, and repairs it if it may. ErrGone: no process is left.
func (g *Guard) checkMemlock(l Launcher, cgroup string) (finding, error) {
	s := survey{kernel: g.Kernel, repair: g.Repair, known: map[Process]bool{}, lowest: Rlimit{Unlimited, Unlimited}}
	if l.Given.Memlock != nil {
		s.want = *l.Given.Memlock
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
	f := finding{setting: agentapi.MemlockSetting, seen: s.lowest.Soft.String()}
	if l.Given.Memlock != nil {
		s.judge(&f, l)
	}
	return f, nil
}

// round looks at the processes that were not known before, and returns how many
// those were.
func (s *survey) round(g *Guard, cgroup string) (fresh int, err error) {
	procs, err := g.processes(cgroup)
	if err != nil {
		return 0, err
	}
	for _, p := range procs {
		if s.known[p] {
			continue
		}
		s.known[p] = true
		fresh++
		if err := s.look(p); err != nil && !errors.Is(err, ErrGone) {
			return 0, err
		}
	}
	return fresh, nil
}

// look reads the limit of a process and repairs it.
func (s *survey) look(p Process) error {
	has, err := s.kernel.Memlock(p)
	if err != nil {
		return err
	}
	s.read++
	if !has.Covers(s.want) {
		if s.short++; s.short == 1 {
			s.first, s.had = p, has
		}
		has = s.fix(p, has)
	}
	s.lowest = Rlimit{Soft: min(s.lowest.Soft, has.Soft), Hard: min(s.lowest.Hard, has.Hard)}
	return nil
}

// fix raises the limit if it may, and returns what the process has then. One that
// is gone needs no more.
func (s *survey) fix(p Process, has Rlimit) Rlimit {
	if !s.repair {
		return has
	}
	switch err := s.kernel.SetMemlock(p, has.raised(s.want)); {
	case err == nil:
		s.repaired++
	case !errors.Is(err, ErrGone):
		s.failed = err
		return has
	}
	return has.raised(s.want)
}

// judge says what the survey means for a launcher that was given a limit.
func (s *survey) judge(f *finding, l Launcher) {
	var event agentapi.Event
	switch {
	case s.lowest.Covers(s.want) && s.repaired == 0:
		f.status = agentapi.StatusApplied
		if was := l.Setting(agentapi.MemlockSetting); was != nil && keeps(was.Status) {
			f.status, f.message = was.Status, was.Message
		}
		return
	case s.lowest.Covers(s.want):
		f.status, f.always = agentapi.StatusRepaired, true
		event = agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonLimitRepaired}
	default:
		f.status = agentapi.StatusDiffers
		event = agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonLimitMissing}
	}
	f.message = s.message()
	event.Message = f.message
	f.event = &event
}

// keeps reports whether a status tells more than "applied" of a limit that is
// there.
func keeps(s agentapi.Status) bool {
	return s == agentapi.StatusYielded || s == agentapi.StatusRepaired
}

func (s *survey) message() string {
	text := fmt.Sprintf("%d of %d processes may lock less than the %s given: process %d had %s (hard %s)",
		s.short, len(s.known), s.want, s.first.PID, s.had.Soft, s.had.Hard)
	switch {
	case s.failed != nil:
		return fmt.Sprintf("%s; repair failed: %v", text, s.failed)
	case s.repaired > 0:
		return text + "; raised with prlimit"
	}
	return text + `; policy says memlock.repair: "report", so nothing was done`
}
