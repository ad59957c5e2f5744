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
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/lifecycle"
)

const (
	// busyTimeout is how long an agent that this one replaces may take to end.
	busyTimeout = 10 * time.Second
	busyPeriod  = 100 * time.Millisecond
)

// tracker is package bpf's, as package lifecycle wants it.
type tracker struct {
	*bpf.Tracker
	cgroup string // mount point of the hierarchy
	left   leftovers
}

var _ lifecycle.Tracker = (*tracker)(nil)

// openTracker opens the tracker, or takes over its pins. It waits a while for another
// agent that has them open.
func openTracker(ctx context.Context, c Config, p *policy.Policy, logger *slog.Logger) (*tracker, error) {
	options := bpf.Options{Dir: c.BPFDir, Emulators: p.Lifecycle.Emulators, Logger: logger}
	var opened *bpf.Tracker
	err := wait.PollUntilContextTimeout(ctx, busyPeriod, busyTimeout, true, func(context.Context) (bool, error) {
		var err error
		opened, err = bpf.Open(options)
		if errors.Is(err, bpf.ErrBusy) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("track the processes of launchers (pins in %s): %w", c.BPFDir, err)
	}
	registered, err := opened.Registered()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("track the processes of launchers: %w", err), opened.Close())
	}
	t := &tracker{Tracker: opened, cgroup: c.Cgroup}
	t.left.note(registered)
	return t, nil
}

// Register implements [lifecycle.Tracker].
func (t *tracker) Register(cgroup string) (uint64, error) {
	group, err := groupOf(t.cgroup, cgroup)
	if err != nil {
		return 0, err
	}
	return group, t.left.claim(group, t.Tracker.Register)
}

// groupOf returns the ID that the kernel has given a cgroup.
func groupOf(mount, cgroup string) (uint64, error) {
	group, err := bpf.CgroupID(filepath.Join(mount, cgroup))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", lifecycle.ErrGone, err)
	}
	return group, err
}

// Bind implements [lifecycle.Tracker].
func (t *tracker) Bind(p lifecycle.Process, group uint64) error {
	return goneProcess(t.Tracker.Bind(kernelProcess(p), group))
}

// Watch implements [lifecycle.Tracker].
func (t *tracker) Watch(p lifecycle.Process) error {
	return goneProcess(t.Tracker.Watch(kernelProcess(p)))
}

func goneProcess(err error) error {
	if errors.Is(err, bpf.ErrNoProcess) {
		return fmt.Errorf("%w: %w", lifecycle.ErrGone, err)
	}
	return err
}

// Snapshot implements [lifecycle.Tracker].
func (t *tracker) Snapshot() ([]lifecycle.Tracked, bool, error) { return snapshot(&t.View) }

func snapshot(v *bpf.View) ([]lifecycle.Tracked, bool, error) {
	all, err := v.Snapshot()
	if err != nil {
		return nil, false, err
	}
	complete, err := v.Complete()
	known := make([]lifecycle.Tracked, 0, len(all))
	for i := range all {
		known = append(known, trackedProcess(&all[i]))
	}
	return known, complete, err
}

// Rescan implements [lifecycle.Tracker].
func (t *tracker) Rescan() error {
	_, err := t.Resync()
	return err
}

// tell tells the supervisor what the tracker sees, until ctx is done.
func (t *tracker) tell(ctx context.Context, s *lifecycle.Supervisor) error {
	var n narrator
	err := t.Events(ctx, func(e bpf.Event) {
		if e.Kind == bpf.Lost {
			s.Lost()
		} else if seen, ok := n.sighting(&e); ok {
			s.Sighted(seen)
		}
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return fmt.Errorf("the tracker tells no more: %w", err)
}

// narrator picks what is worth telling: launchers execute a lot that is no emulator.
type narrator struct {
	emulators map[bpf.Process]bool // that have been told of
}

// sighting returns what an event tells of emulators and of owners.
func (n *narrator) sighting(e *bpf.Event) (seen lifecycle.Sighting, ok bool) {
	seen.Tracked = trackedProcess(&e.Tracked)
	switch {
	case e.Kind == bpf.Exit:
		delete(n.emulators, e.Process)
		seen.Ended, seen.How, seen.At = true, how(e.Exit), lifecycle.Boottime(e.Time)
		return seen, e.Emulator || e.Watched
	case e.Emulator:
		if n.emulators == nil {
			n.emulators = map[bpf.Process]bool{}
		}
		n.emulators[e.Process] = true
		seen.Forked = e.Kind == bpf.Fork
		return seen, true
	}
	left := e.Kind == bpf.Exec && n.emulators[e.Process] // it executes something else now
	if left {
		delete(n.emulators, e.Process)
	}
	return seen, left
}

// how tells people how a process has ended.
func how(e bpf.ExitStatus) string {
	switch {
	case e.Signal == 0:
		return fmt.Sprintf("exit code %d", e.Code)
	case e.CoreDumped:
		return fmt.Sprintf("%s, core dumped", unix.SignalName(e.Signal))
	}
	return unix.SignalName(e.Signal)
}

func trackedProcess(p *bpf.Tracked) lifecycle.Tracked {
	t := lifecycle.Tracked{
		Process: lifecycle.Process{PID: p.PID, StartTime: p.Ticks()},
		Group:   p.Group,
		Bound:   p.Bound,
	}
	if p.Emulator {
		t.Executable = p.File.Name
	}
	return t
}

func kernelProcess(p lifecycle.Process) bpf.Process {
	return bpf.Process{PID: p.PID, StartTime: p.StartTime * uint64(lifecycle.Tick)}
}

// viewer looks at what another process tracks. It changes nothing.
type viewer struct {
	*bpf.View
	cgroup string // mount point of the hierarchy
}

var _ lifecycle.Tracker = (*viewer)(nil)

// Register implements [lifecycle.Tracker]: it is registered already, or nobody does.
func (v *viewer) Register(cgroup string) (uint64, error) { return groupOf(v.cgroup, cgroup) }

// Unregister implements [lifecycle.Tracker]: the next agent does, see [leftovers].
func (*viewer) Unregister(uint64) error { return nil }

// Bind implements [lifecycle.Tracker].
func (*viewer) Bind(lifecycle.Process, uint64) error { return nil }

// Watch implements [lifecycle.Tracker].
func (*viewer) Watch(lifecycle.Process) error { return nil }

// Snapshot implements [lifecycle.Tracker].
func (v *viewer) Snapshot() ([]lifecycle.Tracked, bool, error) { return snapshot(v.View) }

// Rescan implements [lifecycle.Tracker].
func (*viewer) Rescan() error { return nil }
