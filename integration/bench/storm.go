package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/bpf"
)

const (
	// forkersEach is how many forkers are tracked, and how many are not.
	forkersEach = 2

	// stormEmulator is the name of the programs that make processes emulators in a
	// storm: those of nobody else on the machine.
	stormEmulator = "mooring-bench-emulator"
)

// The conditions of a storm.
const (
	agentUp   = "agent up: events are read"
	agentDown = "agent down: pins alone"
)

// storm is what was left of a storm of forks.
type storm struct {
	tracked, untracked int    // processes started
	alive              int    // of the tracked ones, at the end
	lostEvents         uint64 // for which the ring had no room
	untold             int    // processes of whose end no event told
	lostProcesses      uint64 // for which the map had no room
	wrongBefore        int    // in the map, against what runs, before Resync
	wrong              int    // and after it
}

// stage is where a storm is made: pins, two cgroups of which one is tracked, and
// forkers in each.
type stage struct {
	dir              string // with pins and programs
	options          bpf.Options
	tracker          *bpf.Tracker
	inside, outside  cgroup
	group            uint64
	trackedForkers   []*forker
	untrackedForkers []*forker
	emulator         string
	ended            atomic.Int64 // tracked processes, by events
}

// storms lets forkers run for a while, with events that are read, and with nobody
// there.
func storms(ctx context.Context, during time.Duration) (map[string]storm, error) {
	all := map[string]storm{}
	for _, condition := range []string{agentUp, agentDown} {
		one, err := oneStorm(ctx, condition, during)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", condition, err)
		}
		all[condition] = one
	}
	return all, nil
}

func oneStorm(ctx context.Context, condition string, during time.Duration) (_ storm, err error) {
	s := &stage{}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return storm{}, err
	}
	if condition == agentUp {
		return s.attended(ctx, during)
	}
	return s.unattended(ctx, during)
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.dir, err = os.MkdirTemp("", "bench-storm"); err != nil {
		return err
	}
	if err := unix.Mount("bpf", s.dir, "bpf", 0, ""); err != nil {
		return fmt.Errorf("mounting a bpf file system: %w", err)
	}
	programs, err := os.MkdirTemp("", "bench-programs")
	if err != nil {
		return err
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	if s.emulator, err = copyProgram(sleep, programs, stormEmulator); err != nil {
		return err
	}
	s.options = bpf.Options{Dir: filepath.Join(s.dir, "pins"), Emulators: []string{stormEmulator}}
	if s.tracker, err = bpf.Open(s.options); err != nil {
		return err
	}
	return s.openForkers(ctx)
}

func (s *stage) openForkers(ctx context.Context) (err error) {
	if s.inside, err = newCgroup("inside"); err != nil {
		return err
	}
	if s.outside, err = newCgroup("outside"); err != nil {
		return err
	}
	if s.group, err = register(s.tracker, s.inside); err != nil {
		return err
	}
	for range forkersEach {
		f, err := startForker(ctx, s.inside)
		if err != nil {
			return err
		}
		s.trackedForkers = append(s.trackedForkers, f)
		if f, err = startForker(ctx, s.outside); err != nil {
			return err
		}
		s.untrackedForkers = append(s.untrackedForkers, f)
	}
	return nil
}

// attended reads events during the storm, as an agent that is there.
func (s *stage) attended(ctx context.Context, during time.Duration) (storm, error) {
	reading, stop := context.WithCancel(ctx)
	var reader errgroup.Group
	reader.Go(func() error { return s.tracker.Events(reading, s.handle) })
	found, truth, err := s.let(during)
	if err == nil {
		found.wrongBefore, err = s.wrong(truth)
	}
	// What is not told within this time was lost.
	waiting, cancel := context.WithTimeout(ctx, laggards)
	_ = await(waiting, func() (bool, error) { return int(s.ended.Load()) >= found.tracked-found.alive, nil })
	cancel()
	stop()
	if end := reader.Wait(); !errors.Is(end, context.Canceled) {
		err = errors.Join(err, end)
	}
	if err != nil {
		return storm{}, err
	}
	return s.conclude(found, truth)
}

// unattended closes the tracker for the time of the storm, as an agent that is away.
func (s *stage) unattended(ctx context.Context, during time.Duration) (storm, error) {
	if err := s.tracker.Close(); err != nil {
		return storm{}, err
	}
	s.tracker = nil
	found, truth, err := s.let(during)
	if err != nil {
		return storm{}, err
	}
	if found.wrongBefore, err = s.wrongByView(truth); err != nil {
		return storm{}, err
	}
	if s.tracker, err = bpf.Open(s.options); err != nil {
		return storm{}, err
	}
	reading, cancel := context.WithTimeout(ctx, laggards)
	defer cancel()
	if err := s.tracker.Events(reading, s.handle); !errors.Is(err, context.DeadlineExceeded) {
		return storm{}, err
	}
	return s.conclude(found, truth)
}

func (s *stage) handle(e bpf.Event) {
	if e.Kind == bpf.Exit && e.Group == s.group {
		s.ended.Add(1)
	}
}

// let lets the storm loose, and returns what was started, and what has to be known
// at its end.
func (s *stage) let(during time.Duration) (found storm, truth map[int]bool, err error) {
	truth = map[int]bool{}
	var mu sync.Mutex
	var all errgroup.Group
	blow := func(f *forker, started, alive *int) func() error {
		return func() error {
			done, err := f.do(order{For: during, Stays: s.emulator})
			mu.Lock()
			defer mu.Unlock()
			*started += done.Started
			*alive += len(done.Living)
			for _, pid := range done.Living {
				truth[pid] = true
			}
			return err
		}
	}
	for _, f := range s.trackedForkers {
		all.Go(blow(f, &found.tracked, &found.alive))
		truth[f.pid()] = true
	}
	var emulators int // known whoever started them
	for _, f := range s.untrackedForkers {
		all.Go(blow(f, &found.untracked, &emulators))
	}
	err = all.Wait()
	return found, truth, err
}

// wrong counts the processes that the tracker knows and that do not run, and those
// that it does not know.
func (s *stage) wrong(truth map[int]bool) (int, error) { return wrong(&s.tracker.View, s.group, truth) }

// wrongByView is wrong while no process has the tracker open.
func (s *stage) wrongByView(truth map[int]bool) (int, error) {
	v, err := bpf.OpenView(s.options.Dir)
	if err != nil {
		return 0, err
	}
	n, err := wrong(v, s.group, truth)
	return n, errors.Join(err, v.Close())
}

func wrong(v *bpf.View, group uint64, truth map[int]bool) (int, error) {
	all, err := v.Snapshot()
	if err != nil {
		return 0, err
	}
	return differences(all, group, truth), nil
}

// differences compares what is known of the group, and of emulators that belong to
// nobody, with the processes that run.
func differences(known []bpf.Tracked, group uint64, truth map[int]bool) int {
	n, seen := 0, map[int]bool{}
	for _, p := range known {
		if p.Group != group && p.Group != 0 {
			continue
		}
		seen[p.PID] = true
		if !truth[p.PID] {
			n++
		}
	}
	for pid := range truth {
		if !seen[pid] {
			n++
		}
	}
	return n
}

// conclude looks at what is left after a Resync.
func (s *stage) conclude(found storm, truth map[int]bool) (storm, error) {
	if _, err := s.tracker.Resync(); err != nil {
		return storm{}, err
	}
	var err error
	if found.wrong, err = s.wrong(truth); err != nil {
		return storm{}, err
	}
	figures, err := s.tracker.Stats()
	if err != nil {
		return storm{}, err
	}
	found.lostEvents, found.lostProcesses = figures.LostEvents, figures.LostProcesses
	found.untold = found.tracked - found.alive - int(s.ended.Load())
	return found, nil
}

func (s *stage) close(ctx context.Context) error {
	var errs []error
	for _, f := range append(s.trackedForkers, s.untrackedForkers...) {
		errs = append(errs, f.stop())
	}
	for _, c := range []cgroup{s.inside, s.outside} {
		if c != "" {
			errs = append(errs, c.remove(ctx))
		}
	}
	if s.tracker != nil {
		errs = append(errs, s.tracker.Close())
	}
	if s.emulator != "" {
		errs = append(errs, os.RemoveAll(filepath.Dir(s.emulator)))
	}
	if s.options.Dir != "" {
		errs = append(errs, bpf.Remove(s.options.Dir))
	}
	if s.dir != "" {
		errs = append(errs, unix.Unmount(s.dir, unix.MNT_DETACH), os.Remove(s.dir))
	}
	return errors.Join(errs...)
}
