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
	// forkersEach is the number of tracked and of untracked forkers.
	forkersEach = 2

	// stormEmulator is the program name of emulators in a storm. No other process on the machine
	// uses it.
	stormEmulator = "mooring-bench-emulator"
)

// The conditions of a storm.
const (
	agentUp   = "agent runs and reads events"
	agentDown = "agent stopped, pinned programs only"
)

// storm is the result of a storm of forks.
type storm struct {
	tracked, untracked int    // processes started
	alive              int    // of the tracked ones, at the end
	lostEvents         uint64 // dropped because the ring was full
	missedEnds         int    // processes without an end event
	lostProcesses      uint64 // dropped because the map was full
	differencesBefore  int    // differences between map and processes before Resync
	differencesAfter   int    // and after it
}

// stormStage is the environment of a storm: pins, a tracked and an untracked cgroup, and forkers in
// both.
type stormStage struct {
	dir              string // of pins and programs
	options          bpf.Options
	tracker          *bpf.Tracker
	inside, outside  cgroup
	group            uint64
	trackedForkers   []*forker
	untrackedForkers []*forker
	emulator         string
	ended            atomic.Int64 // tracked processes, by events
}

// storms lets forkers run for a while, with and without a reader of the events.
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
	s := &stormStage{}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return storm{}, err
	}
	if condition == agentUp {
		return s.runWithReader(ctx, during)
	}
	return s.runWithoutReader(ctx, during)
}

func (s *stormStage) open(ctx context.Context) (err error) {
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

func (s *stormStage) openForkers(ctx context.Context) (err error) {
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

// runWithReader reads events during the storm, like a running agent.
func (s *stormStage) runWithReader(ctx context.Context, during time.Duration) (storm, error) {
	reading, stop := context.WithCancel(ctx)
	var reader errgroup.Group
	reader.Go(func() error { return s.tracker.Events(reading, s.handle) })
	found, expected, err := s.runForkers(during)
	if err == nil {
		found.differencesBefore, err = s.countDifferences(expected)
	}
	// Later events count as lost.
	waiting, cancel := context.WithTimeout(ctx, eventTimeout)
	_ = await(waiting, func() (bool, error) {
		return int(s.ended.Load()) >= found.tracked-found.alive, nil
	})
	cancel()
	stop()
	if end := reader.Wait(); !errors.Is(end, context.Canceled) {
		err = errors.Join(err, end)
	}
	if err != nil {
		return storm{}, err
	}
	return s.resyncAndCompare(found, expected)
}

// runWithoutReader closes the tracker during the storm, like a stopped agent.
func (s *stormStage) runWithoutReader(ctx context.Context, during time.Duration) (storm, error) {
	if err := s.tracker.Close(); err != nil {
		return storm{}, err
	}
	s.tracker = nil
	found, expected, err := s.runForkers(during)
	if err != nil {
		return storm{}, err
	}
	if found.differencesBefore, err = s.countDifferencesByView(expected); err != nil {
		return storm{}, err
	}
	if s.tracker, err = bpf.Open(s.options); err != nil {
		return storm{}, err
	}
	reading, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	if err := s.tracker.Events(reading, s.handle); !errors.Is(err, context.DeadlineExceeded) {
		return storm{}, err
	}
	return s.resyncAndCompare(found, expected)
}

func (s *stormStage) handle(e bpf.Event) {
	if e.Kind == bpf.Exit && e.Group == s.group {
		s.ended.Add(1)
	}
}

// runForkers runs the storm. It returns the numbers of started processes, and the processes that
// the map must contain at the end.
func (s *stormStage) runForkers(
	during time.Duration,
) (found storm, expected map[int]bool, err error) {
	expected = map[int]bool{}
	var mu sync.Mutex
	var all errgroup.Group
	runForker := func(f *forker, started, alive *int) func() error {
		return func() error {
			done, err := f.do(order{For: during, Stays: s.emulator})
			mu.Lock()
			defer mu.Unlock()
			*started += done.Started
			*alive += len(done.Living)
			for _, pid := range done.Living {
				expected[pid] = true
			}
			return err
		}
	}
	for _, f := range s.trackedForkers {
		all.Go(runForker(f, &found.tracked, &found.alive))
		expected[f.pid()] = true
	}
	var emulators int // tracked in both cgroups
	for _, f := range s.untrackedForkers {
		all.Go(runForker(f, &found.untracked, &emulators))
	}
	err = all.Wait()
	return found, expected, err
}

// countDifferences counts ended processes in the map, and running processes missing there.
func (s *stormStage) countDifferences(expected map[int]bool) (int, error) {
	return differencesIn(&s.tracker.View, s.group, expected)
}

// countDifferencesByView is countDifferences without an open tracker.
func (s *stormStage) countDifferencesByView(expected map[int]bool) (int, error) {
	v, err := bpf.OpenView(s.options.Dir)
	if err != nil {
		return 0, err
	}
	n, err := differencesIn(v, s.group, expected)
	return n, errors.Join(err, v.Close())
}

func differencesIn(v *bpf.View, group uint64, expected map[int]bool) (int, error) {
	all, err := v.Snapshot()
	if err != nil {
		return 0, err
	}
	return differences(all, group, expected), nil
}

// differences compares the map's entries of the group, and of emulators without a group, with the
// running processes.
func differences(known []bpf.Tracked, group uint64, expected map[int]bool) int {
	n, inMap := 0, map[int]bool{}
	for _, p := range known {
		if p.Group != group && p.Group != 0 {
			continue
		}
		inMap[p.PID] = true
		if !expected[p.PID] {
			n++
		}
	}
	for pid := range expected {
		if !inMap[pid] {
			n++
		}
	}
	return n
}

// resyncAndCompare compares the state after a Resync.
func (s *stormStage) resyncAndCompare(found storm, expected map[int]bool) (storm, error) {
	if _, err := s.tracker.Resync(); err != nil {
		return storm{}, err
	}
	var err error
	if found.differencesAfter, err = s.countDifferences(expected); err != nil {
		return storm{}, err
	}
	figures, err := s.tracker.Stats()
	if err != nil {
		return storm{}, err
	}
	found.lostEvents, found.lostProcesses = figures.LostEvents, figures.LostProcesses
	found.missedEnds = found.tracked - found.alive - int(s.ended.Load())
	return found, nil
}

func (s *stormStage) close(ctx context.Context) error {
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
