package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

const (
	// busyTimeout bounds the wait for the end of an earlier agent.
	busyTimeout = 10 * time.Second
	busyPeriod  = 100 * time.Millisecond
)

// tracker implements [supervisor.Tracker] with package bpf.
type tracker struct {
	*bpf.Tracker
	cgroup    string // mount point of the hierarchy
	leftovers leftovers
	crowds    *crowds
}

var _ supervisor.Tracker = (*tracker)(nil)

// openTracker loads the tracker, or takes over its pins. While another agent has the pins
// open, it waits for at most busyTimeout.
func openTracker(
	ctx context.Context, c Config, p *policy.Policy, logger *slog.Logger, report reportCrowd,
) (*tracker, error) {
	options := bpf.Options{Dir: c.BPFDir, Emulators: p.Lifecycle.Emulators, Logger: logger}
	var opened *bpf.Tracker
	open := func(context.Context) (bool, error) {
		var err error
		opened, err = bpf.Open(options)
		if errors.Is(err, bpf.ErrBusy) {
			return false, nil
		}
		return err == nil, err
	}
	err := wait.PollUntilContextTimeout(ctx, busyPeriod, busyTimeout, true, open)
	if err != nil {
		return nil, fmt.Errorf("track the processes of launchers (pins in %s): %w", c.BPFDir, err)
	}
	registered, err := opened.Registered()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("track the processes of launchers: %w", err),
			opened.Close())
	}
	t := &tracker{Tracker: opened, cgroup: c.Cgroup, crowds: newCrowds(report)}
	t.leftovers.reset(registered)
	return t, nil
}

// Register implements [supervisor.Tracker].
func (t *tracker) Register(cgroup string) (uint64, error) {
	group, err := groupOf(t.cgroup, cgroup)
	if err != nil {
		return 0, err
	}
	t.crowds.name(group, cgroup)
	return group, t.leftovers.claim(group, t.Tracker.Register)
}

// Unregister implements [supervisor.Tracker].
func (t *tracker) Unregister(group uint64) error {
	t.crowds.forget(group)
	return t.Tracker.Unregister(group)
}

// groupOf returns the kernel's ID of a cgroup.
func groupOf(mount, cgroup string) (uint64, error) {
	group, err := bpf.CgroupID(filepath.Join(mount, cgroup))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", host.ErrGone, err)
	}
	return group, err
}

// Bind implements [supervisor.Tracker].
func (t *tracker) Bind(p host.Process, group uint64) error {
	return withErrGone(t.Tracker.Bind(kernelProcess(p), group))
}

// Watch implements [supervisor.Tracker].
func (t *tracker) Watch(p host.Process) (host.Process, error) {
	exact, err := t.Tracker.Watch(kernelProcess(p))
	p.StartTime = exact.StartTime
	return p, withErrGone(err)
}

// withErrGone wraps host.ErrGone around the error for an ended process.
func withErrGone(err error) error {
	if errors.Is(err, bpf.ErrNoProcess) {
		return fmt.Errorf("%w: %w", host.ErrGone, err)
	}
	return err
}

// Snapshot implements [supervisor.Tracker].
func (t *tracker) Snapshot() ([]supervisor.Tracked, bool, error) { return snapshot(&t.View) }

func snapshot(v *bpf.View) ([]supervisor.Tracked, bool, error) {
	all, err := v.Snapshot()
	if err != nil {
		return nil, false, err
	}
	complete, err := v.Complete()
	known := make([]supervisor.Tracked, 0, len(all))
	for i := range all {
		known = append(known, trackedProcess(&all[i]))
	}
	return known, complete, err
}

// Rescan implements [supervisor.Tracker]. Processes without room are no error: the next Rescan adds
// them if they have room by then.
func (t *tracker) Rescan() error {
	changes, err := t.Resync()
	if err != nil && !errors.Is(err, bpf.ErrFull) {
		return err
	}
	t.crowds.update(changes.NoRoom, time.Now())
	return nil
}

// A pod can fill the tracker's ring again and again, so losses start only so many scans of the
// node. The periodic scan of the supervisor covers the other losses.
const (
	lossPeriod = 30 * time.Second
	lossBurst  = 3
)

// forwardEvents passes the tracker's events to the supervisor until ctx is done.
func (t *tracker) forwardEvents(ctx context.Context, s *supervisor.Supervisor) error {
	losses := rate.NewLimiter(rate.Every(lossPeriod), lossBurst)
	err := t.Events(ctx, func(e bpf.Event) {
		if e.Kind == bpf.Lost {
			if losses.Allow() {
				s.EventsLost()
			}
		} else if sighting, ok := sightingOf(&e); ok {
			s.ProcessEvent(sighting)
		}
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("the tracker sends no more events: %w", err)
}

// sightingOf converts an event of an emulator or of a launcher process. ok is false for all other
// events: launchers execute many programs that are not emulators.
func sightingOf(e *bpf.Event) (s supervisor.ProcessEvent, ok bool) {
	s.Tracked = trackedProcess(&e.Tracked)
	if e.Kind == bpf.Exit {
		s.Ended, s.How, s.At = true, exitText(e.Exit), host.Boottime(e.Time)
		return s, e.Emulator || e.Watched
	}
	s.Forked = e.Emulator && e.Kind == bpf.Fork
	return s, e.Emulator || e.WasEmulator
}

// exitText describes the end of a process for people.
func exitText(e bpf.ExitStatus) string {
	switch {
	case e.Signal == 0:
		return fmt.Sprintf("exit code %d", e.Code)
	case e.CoreDumped:
		return fmt.Sprintf("%s, core dumped", unix.SignalName(e.Signal))
	}
	return unix.SignalName(e.Signal)
}

func trackedProcess(p *bpf.Tracked) supervisor.Tracked {
	t := supervisor.Tracked{
		Process: host.Process{PID: p.PID, StartTime: p.StartTime},
		Group:   p.Group,
		Bound:   p.Bound,
	}
	if p.Emulator {
		t.Executable = p.File.Name
	}
	return t
}

func kernelProcess(p host.Process) bpf.Process {
	return bpf.Process{PID: p.PID, StartTime: p.StartTime}
}

// readOnlyTracker reads the pins of the agent's tracker and changes nothing. The fence uses
// it.
type readOnlyTracker struct {
	*bpf.View
	cgroup string // mount point of the hierarchy
}

var _ supervisor.Tracker = (*readOnlyTracker)(nil)

// Register implements [supervisor.Tracker]. It only returns the cgroup's ID: an agent has
// registered the cgroup before.
func (v *readOnlyTracker) Register(cgroup string) (uint64, error) {
	return groupOf(v.cgroup, cgroup)
}

// Unregister implements [supervisor.Tracker]. The next agent unregisters, see [leftovers].
func (*readOnlyTracker) Unregister(uint64) error { return nil }

// Bind implements [supervisor.Tracker].
func (*readOnlyTracker) Bind(host.Process, uint64) error { return nil }

// Watch implements [supervisor.Tracker].
func (*readOnlyTracker) Watch(p host.Process) (host.Process, error) { return p, nil }

// Snapshot implements [supervisor.Tracker].
func (v *readOnlyTracker) Snapshot() ([]supervisor.Tracked, bool, error) { return snapshot(v.View) }

// Rescan implements [supervisor.Tracker].
func (*readOnlyTracker) Rescan() error { return nil }
