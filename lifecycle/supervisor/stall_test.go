package supervisor_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// The tests of this file are about a node that freezes for longer than the watchdog. The launcher
// could not send a heartbeat either.

// freezer is the node's clock and some of the effects of the supervisor. The next call of the
// effect named by at freezes the node.
type freezer struct {
	supervisor.PodDirs
	supervisor.Processes
	suspended atomic.Int64
	at        atomic.Value // string
}

const freezePeriod = 8 * time.Second

func (f *freezer) freeze(at string) {
	if f.at.CompareAndSwap(at, "") {
		f.suspended.Add(int64(freezePeriod))
	}
}

func (f *freezer) Touched(uid string) (poddir.Touched, error) {
	defer f.freeze("after the read of the pod directory")
	f.freeze("before the read of the pod directory")
	return f.PodDirs.Touched(uid)
}

func (f *freezer) OpenHandle(p host.Process, ended func()) (host.Handle, error) {
	f.freeze("at the start of a VM process")
	return f.Processes.OpenHandle(p, ended)
}

// freezingStore freezes the node while the supervisor stores a tie.
type freezingStore struct {
	supervisor.Store
	*freezer
}

func (s freezingStore) Save(t tie.Tie) error {
	s.freeze("while a tie is stored")
	return s.Store.Save(t)
}

// inFreezer runs a test with a launcher and its VM process. The launcher has a watchdog of five
// seconds.
func inFreezer(t *testing.T, test func(r *rig, f *freezer, l launcher, vm host.Process)) {
	f := &freezer{}
	f.at.Store("")
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Clock = suspendableClock{c.Clock, &f.suspended}
		f.PodDirs, f.Processes = c.PodDirs, c.Processes
		c.PodDirs, c.Processes, c.Store = f, f, freezingStore{c.Store, f}
	}
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", func(l *registry.Launcher) { l.Watchdog = 5 * time.Second })
		r.heartbeat(l)
		test(r, f, l, r.startQEMU(l.cgroup))
	})
}

// expectHang expects no signal to a VM process within four seconds. Then it expects LauncherHung,
// because the launcher sends no more heartbeats.
func (r *rig) expectHang(vm host.Process) {
	r.t.Helper()
	r.advance(4 * time.Second)
	r.expectSignals(vm)
	r.advance(5 * time.Second)
	r.expectEvent(agentapi.ReasonLauncherHung)
	r.expectSignals(vm, "TERM")
}

func TestFreezeIsLongerThanTheWatchdog(t *testing.T) {
	inFreezer(t, func(r *rig, f *freezer, _ launcher, vm host.Process) {
		f.suspended.Add(int64(freezePeriod))
		r.expectHang(vm)
	})
}

// The freeze begins while the supervisor works.
func TestFreezeInsideATurn(t *testing.T) {
	touch := func(r *rig, l launcher) { r.PodTouched(l.Pod.UID) }
	for at, work := range map[string]func(*rig, launcher){
		"before the read of the pod directory": touch,
		"after the read of the pod directory":  touch,
		"while a tie is stored": func(r *rig, l launcher) {
			r.SetStopHandler(l.Pod.UID, true)
			r.SetStopHandler(l.Pod.UID, false)
		},
		"at the start of a VM process": func(r *rig, l launcher) {
			r.kernel.SetArguments(r.startQEMU(l.cgroup).PID, "qemu-system-x86_64")
		},
	} {
		t.Run(at, func(t *testing.T) {
			inFreezer(t, func(r *rig, f *freezer, l launcher, vm host.Process) {
				f.at.Store(at)
				work(r, l)
				synctest.Wait()
				if f.at.Load() != "" {
					t.Fatal("the node did not freeze")
				}
				r.expectHang(vm)
			})
		})
	}
}

// A tie is due at the end of its lease. The freeze begins while the supervisor reads the pod
// directory of this tie.
func TestFreezeWhileATieIsDue(t *testing.T) {
	inFreezer(t, func(r *rig, f *freezer, l launcher, vm host.Process) {
		r.leasePod(l, 2*time.Second, 1)
		r.advance(2*time.Second - 1)
		f.at.Store("before the read of the pod directory")
		r.advance(1)
		if f.at.Load() != "" {
			t.Fatal("the node did not freeze")
		}
		r.expectHang(vm)
	})
}

// The node freezes again in the turn that begins after a freeze or an absence.
func TestFreezeAfterAFreeze(t *testing.T) {
	for name, c := range map[string]struct {
		first time.Duration
		at    string
	}{
		"freeze":  {3 * time.Second, "before the read of the pod directory"},
		"absence": {time.Minute, "while a tie is stored"},
	} {
		t.Run(name, func(t *testing.T) {
			inFreezer(t, func(r *rig, f *freezer, l launcher, vm host.Process) {
				f.suspended.Add(int64(c.first))
				f.at.Store(c.at)
				r.PodTouched(l.Pod.UID)
				r.advance(time.Second)
				if f.at.Load() != "" {
					t.Fatal("the node did not freeze")
				}
				r.expectHang(vm)
			})
		})
	}
}

// The fence steps aside late, after a time in which the supervisor reads no heartbeat.
func TestLongReturnFromAnAbsence(t *testing.T) {
	var suspended atomic.Int64
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Clock = suspendableClock{c.Clock, &suspended}
		c.AfterAbsence = func(context.Context) { suspended.Add(int64(freezePeriod)) }
	}
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", func(l *registry.Launcher) { l.Watchdog = 5 * time.Second })
		r.heartbeat(l)
		vm := r.startQEMU(l.cgroup)
		suspended.Add(int64(time.Minute))
		r.expectHang(vm)
	})
}
