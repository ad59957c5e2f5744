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

// watcher is somebody who wants to know of processes.
type watcher interface {
	// start watches, in particular what f starts.
	start(f *forker) error

	// seen returns how many processes of the forker were seen to start.
	seen() int

	stop() error
}

// The watchers that are compared.
const (
	nobody    = "nothing"
	hollow    = "eBPF programs that do nothing"
	untracked = "Mooring, process not tracked"
	tracked   = "Mooring, process tracked"
	netlink   = "proc connector, listener"
	polling   = "/proc, read ten times a second"
)

func watchers() []string { return []string{nobody, hollow, untracked, tracked, netlink, polling} }

// pollsEvery is how often one looks that has no events.
const pollsEvery = 100 * time.Millisecond

// newWatcher makes one for processes in a cgroup. Who does not track those tracks
// others, of which there are none.
func newWatcher(name string, in, elsewhere cgroup) watcher {
	switch name {
	case hollow:
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

// counted is a watcher inside the kernel, which counts what that takes.
type counted interface {
	// figures are so far those of the programs at each tracepoint.
	figures() ([]bpf.ProgramStats, error)
}

type noWatcher struct{}

func (noWatcher) start(*forker) error { return nil }
func (noWatcher) seen() int           { return 0 }
func (noWatcher) stop() error         { return nil }

// tracking is Mooring's tracker, whose events are read.
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

// register has the processes of a cgroup tracked, also those that are there already.
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

func (t *tracking) seen() int { return int(t.count.Load()) }

func (t *tracking) stop() error {
	t.cancel()
	err := <-t.done
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return errors.Join(err, t.tracker.Close())
}

// poller looks through all processes again and again.
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
	go func() { p.done <- p.look(ctx) }()
	return nil
}

func (p *poller) look(ctx context.Context) error {
	known := map[int]bool{}
	tick := time.NewTicker(pollsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		all, err := procfs.AllProcs()
		if err != nil {
			return fmt.Errorf("looking through /proc: %w", err)
		}
		for _, one := range all {
			// One that cannot be read has ended meanwhile.
			if s, err := one.Stat(); err == nil && s.PPID == p.parent && !known[one.PID] {
				known[one.PID] = true
				p.count.Add(1)
			}
		}
	}
}

func (p *poller) seen() int { return int(p.count.Load()) }

func (p *poller) stop() error {
	p.cancel()
	return <-p.done
}
