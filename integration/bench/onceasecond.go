package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// looksEvery is how often what stands for today's watchers looks: that is what
// KubeVirt's launcher does, for its VM.
const looksEvery = time.Second

// lookout looks once a second whether launchers are there, and asks their VMs to end
// when they are not.
type lookout struct {
	mu   sync.Mutex
	vms  map[int]*vm // by the launcher's first process
	done chan struct{}
}

func startLookout(ctx context.Context) *lookout {
	l := &lookout{vms: map[int]*vm{}, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(looksEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.look()
			}
		}
	}()
	return l
}

func (l *lookout) watch(owner int, v *vm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vms[owner] = v
}

func (l *lookout) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for owner, v := range l.vms {
		if !runs(owner) {
			_ = v.cmd.Process.Signal(unix.SIGTERM) // whoever waits for it notices
			delete(l.vms, owner)
		}
	}
}

// runs reports whether there is such a process, and it is no zombie.
func runs(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	s, err := p.Stat()
	return err == nil && s.State != "Z"
}

// lookedFor starts n launchers with VMs for the lookout, kills each at some moment
// between two looks, and returns how long it took until their VMs were asked to end.
func lookedFor(ctx context.Context, program string, n int) (_ []time.Duration, err error) {
	looking, stop := context.WithCancel(ctx)
	l := startLookout(looking)
	defer func() { stop(); <-l.done }()
	in, err := newCgroup("looked-for")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.remove(context.WithoutCancel(ctx))) }()
	took := make([]time.Duration, n)
	var all errgroup.Group
	for i := range took {
		all.Go(func() (err error) {
			took[i], err = l.lookedForOne(ctx, in, program)
			return err
		})
	}
	return took, all.Wait()
}

func (l *lookout) lookedForOne(ctx context.Context, in cgroup, program string) (time.Duration, error) {
	owner := exec.Command("sleep", "1000000")
	if err := in.start(owner); err != nil {
		return 0, err
	}
	v, err := startVM(in, standInVM(ctx, program, 0))
	if err != nil {
		return 0, err
	}
	defer v.reap()
	l.watch(owner.Process.Pid, v)
	if err := pause(ctx, rand.N(looksEvery)); err != nil {
		return 0, err
	}
	killed := host.LinuxClock{}.Now()
	if err := owner.Process.Kill(); err != nil {
		return 0, err
	}
	asked, err := v.asked()
	_ = owner.Wait() // it was killed
	return asked.Sub(killed), err
}
