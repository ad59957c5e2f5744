package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/procfs"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
)

// watcher observes processes.
type watcher interface {
	// start starts watching, in particular the processes of f.
	start(f *forker) error

	// observed returns the number of observed processes of the forker.
	observed() int

	stop() error
}

// The compared watchers.
const (
	noWatcherName = "no watcher"
	emptyPrograms = "empty eBPF programs"
	untracked     = "Mooring, process not tracked"
	tracked       = "Mooring, process tracked"
	netlink       = "proc connector, listener"
	polling       = "/proc, read ten times a second"
)

func watchers() []string {
	return []string{noWatcherName, emptyPrograms, untracked, tracked, netlink, polling}
}

// procPollPeriod is the period of a watcher without events.
const procPollPeriod = 100 * time.Millisecond

// newWatcher returns a watcher of processes in a cgroup. The untracked watcher tracks the cgroup
// elsewhere, which is empty.
func newWatcher(name string, in, elsewhere cgroup) watcher {
	switch name {
	case emptyPrograms:
		return &emptyProgram{}
	case untracked:
		return &tracking{group: elsewhere}
	case tracked:
		return &tracking{group: in}
	case netlink:
		return &connector{}
	case polling:
		return &poller{}
	}
	return noWatcher{}
}

// counted is a watcher in the kernel with statistics of its cost.
type counted interface {
	// figures returns the statistics of the programs so far, by tracepoint.
	figures() ([]bpf.ProgramStats, error)
}

type noWatcher struct{}

func (noWatcher) start(*forker) error { return nil }
func (noWatcher) observed() int       { return 0 }
func (noWatcher) stop() error         { return nil }

// tracking runs Mooring's tracker with a reader of its events.
type tracking struct {
	group   cgroup
	tracker *bpf.Tracker
	parent  int
	count   atomic.Int64
	cancel  context.CancelFunc
	done    chan error
}

func (t *tracking) start(f *forker) (err error) {
	rules, err := policy.Parse(nodePolicy)
	if err != nil {
		return err
	}
	t.parent, t.done = f.pid(), make(chan error, 1)
	if t.tracker, err = bpf.Open(bpf.Options{Emulators: rules.Lifecycle.Emulators}); err != nil {
		return err
	}
	if _, err := register(t.tracker, t.group); err != nil {
		return errors.Join(err, t.tracker.Close())
	}
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	go func() { t.done <- t.tracker.Events(ctx, t.handle) }()
	return nil
}

// register tracks a cgroup's processes, including existing ones.
func register(t *bpf.Tracker, in cgroup) (group uint64, err error) {
	if group, err = bpf.CgroupID(string(in)); err != nil {
		return 0, err
	}
	if err := t.Register(group); err != nil {
		return 0, err
	}
	_, err = t.Resync()
	return group, err
}

func (t *tracking) handle(e bpf.Event) {
	if e.Kind == bpf.Fork && e.Parent == t.parent {
		t.count.Add(1)
	}
}

func (t *tracking) figures() ([]bpf.ProgramStats, error) {
	s, err := t.tracker.Stats()
	return s.Programs, err
}

func (t *tracking) observed() int { return int(t.count.Load()) }

func (t *tracking) stop() error {
	t.cancel()
	err := <-t.done
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, t.tracker.Close())
}

// poller reads all processes periodically.
type poller struct {
	parent int
	count  atomic.Int64
	cancel context.CancelFunc
	done   chan error
}

func (p *poller) start(f *forker) error {
	p.parent, p.done = f.pid(), make(chan error, 1)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() { p.done <- p.scan(ctx) }()
	return nil
}

func (p *poller) scan(ctx context.Context) error {
	known := map[int]bool{}
	tick := time.NewTicker(procPollPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		all, err := procfs.AllProcs()
		if err != nil {
			return fmt.Errorf("listing /proc: %w", err)
		}
		for _, one := range all {
			// An unreadable process has ended.
			if s, err := one.Stat(); err == nil && s.PPID == p.parent && !known[one.PID] {
				known[one.PID] = true
				p.count.Add(1)
			}
		}
	}
}

func (p *poller) observed() int { return int(p.count.Load()) }

func (p *poller) stop() error {
	p.cancel()
	return <-p.done
}
