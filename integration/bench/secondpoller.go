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

// pollPeriod is the period of KubeVirt's launcher when it watches its VM.
const pollPeriod = time.Second

// secondPoller checks the launchers once a second, and sends SIGTERM to the VMs of ended launchers.
type secondPoller struct {
	mu   sync.Mutex
	vms  map[int]*vm // by pid of the launcher's first process
	done chan struct{}
}

func startSecondPoller(ctx context.Context) *secondPoller {
	l := &secondPoller{vms: map[int]*vm{}, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		tick := time.NewTicker(pollPeriod)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				l.scan()
			}
		}
	}()
	return l
}

func (l *secondPoller) watch(launcher int, v *vm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.vms[launcher] = v
}

func (l *secondPoller) scan() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for launcher, v := range l.vms {
		if !isRunning(launcher) {
			_ = v.cmd.Process.Signal(unix.SIGTERM) // the waiting caller notices an error
			delete(l.vms, launcher)
		}
	}
}

// isRunning reports whether the process exists and is not a zombie.
func isRunning(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	s, err := p.Stat()
	return err == nil && s.State != "Z"
}

// pollDeaths starts n launchers with VMs under secondPoller, and kills each at a random moment. It
// returns the times until SIGTERM.
func pollDeaths(ctx context.Context, program string, n int) (_ []time.Duration, err error) {
	pollContext, stop := context.WithCancel(ctx)
	l := startSecondPoller(pollContext)
	defer func() { stop(); <-l.done }()
	in, err := newCgroup("polled")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.remove(context.WithoutCancel(ctx))) }()
	took := make([]time.Duration, n)
	var all errgroup.Group
	for i := range took {
		all.Go(func() (err error) {
			took[i], err = l.pollOneDeath(ctx, in, program)
			return err
		})
	}
	return took, all.Wait()
}

func (l *secondPoller) pollOneDeath(
	ctx context.Context, in cgroup, program string,
) (time.Duration, error) {
	launcher := exec.Command("sleep", "1000000")
	if err := in.start(launcher); err != nil {
		return 0, err
	}
	v, err := startVM(in, standInVM(ctx, program, 0))
	if err != nil {
		return 0, err
	}
	defer v.reap()
	l.watch(launcher.Process.Pid, v)
	if err := pause(ctx, rand.N(pollPeriod)); err != nil {
		return 0, err
	}
	killed := host.LinuxClock{}.Now()
	if err := launcher.Process.Kill(); err != nil {
		return 0, err
	}
	received, err := v.signalTime()
	_ = launcher.Wait() // it was killed
	return received.Sub(killed), err
}
