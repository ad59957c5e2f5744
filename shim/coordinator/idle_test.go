package coordinator_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

// wakeUps counts the moments at which a shim calls libvirt or the agent. Calls at one moment are
// one wake-up.
type wakeUps struct {
	mu    sync.Mutex
	last  time.Time
	count int
}

func (w *wakeUps) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); !now.Equal(w.last) {
		w.last = now
		w.count++
	}
}

// during returns the number of wake-ups within d.
func (w *wakeUps) during(d time.Duration) int {
	w.mu.Lock()
	before := w.count
	w.mu.Unlock()
	time.Sleep(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count - before
}

// observe makes w count the calls of a configuration.
func (w *wakeUps) observe(c *coordinator.Config) {
	c.Connection = notedLibvirt{c.Connection, w}
	c.Agent = notedAgent{c.Agent, w}
}

type notedAgent struct {
	coordinator.Agent
	wakeUps *wakeUps
}

func (a notedAgent) Desired(ctx context.Context) (podapi.Desired, error) {
	a.wakeUps.note()
	return a.Agent.Desired(ctx)
}

func (a notedAgent) Limits(ctx context.Context) (resize.Limits, error) {
	a.wakeUps.note()
	return a.Agent.Limits(ctx)
}

func (a notedAgent) Lease(ctx context.Context, d time.Duration, reason string) error {
	a.wakeUps.note()
	return a.Agent.Lease(ctx, d, reason)
}

type notedLibvirt struct {
	virt.Connection
	wakeUps *wakeUps
}

func (l notedLibvirt) Domains(ctx context.Context) ([]virt.Domain, error) {
	l.wakeUps.note()
	all, err := l.Connection.Domains(ctx)
	for i, d := range all {
		all[i] = notedDomain{d, l.wakeUps}
	}
	return all, err
}

type notedDomain struct {
	virt.Domain
	wakeUps *wakeUps
}

func (d notedDomain) Phase(ctx context.Context) (virt.Phase, error) {
	d.wakeUps.note()
	return d.Domain.Phase(ctx)
}

func (d notedDomain) Life(ctx context.Context) (virt.Life, error) {
	d.wakeUps.note()
	return d.Domain.Life(ctx)
}

func (d notedDomain) StateWithoutGuest(ctx context.Context) (virt.State, error) {
	d.wakeUps.note()
	return d.Domain.StateWithoutGuest(ctx)
}

func (d notedDomain) State(ctx context.Context) (virt.State, error) {
	d.wakeUps.note()
	return d.Domain.State(ctx)
}

// An idle shim wakes up at most once in ten seconds: beside a VM with its desired size, also after
// a migration and a change of its size, and without a VM.
func TestIdleWakeUps(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"unchanged VM": func(*rig) {},
		"resized VM": func(r *rig) {
			r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
			time.Sleep(2345 * time.Millisecond)
		},
		"after a migration": func(r *rig) {
			time.Sleep(1234 * time.Millisecond)
			r.setMigrating(true)
			time.Sleep(3456 * time.Millisecond)
			r.setMigrating(false)
		},
		"no VM": func(r *rig) {
			r.Set(func(s *virt.State) { s.Phase = virt.ShutOff })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wakeUps{}
			inBubble(t, w.observe, func(_ *testing.T, r *rig) {
				prepare(r)
				time.Sleep(time.Minute)
				if n := w.during(10 * time.Minute); n > 60 || n == 0 {
					t.Errorf("%d wake-ups in ten minutes, want 1 to 60", n)
				}
			})
		})
	}
}

// An event of libvirt costs one short query. It causes no comparison with the desired size.
func TestEventsCauseNoComparison(t *testing.T) {
	const minutes = 10
	inBubble(t, nil, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		start := r.Reads()
		time.Sleep(minutes * time.Minute)
		quiet := r.Reads()
		for range minutes * 60 {
			r.Set(func(*virt.State) {}) // as for a change of another part of the domain
			time.Sleep(time.Second)
		}
		busy := r.Reads()
		// The start and the end of the ten minutes may each divide a comparison, which reads twice.
		if more, want := busy.State-quiet.State, quiet.State-start.State; more > want+4 ||
			busy.Guest != quiet.Guest {
			t.Errorf("%d reads of the state with events, want %d as without; %d of the guest", more,
				want, busy.Guest-quiet.Guest)
		}
		if n := busy.Life - quiet.Life; n < minutes*60 || n > minutes*70 {
			t.Errorf("%d reads of the VM's life for %d events", n, minutes*60)
		}
	})
}

// For an idle VM the shim polls libvirt, mostly with short queries, and never the guest.
func TestIdle(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		before := r.Reads()
		time.Sleep(time.Hour)
		after := r.Reads()
		if most := 2 * int(time.Hour/(30*time.Second)); after.Guest != before.Guest ||
			after.State-before.State > most {
			t.Errorf("reads %+v after an hour, %+v before: want at most %d of the state",
				after, before, most)
		}
		if interval := time.Hour / time.Duration(after.Life-before.Life+
			after.Phase-before.Phase); interval < 500*time.Millisecond {
			t.Errorf("one read each %s, want at most one per 500ms", interval)
		}
	})
}

// The shim queries the guest only for its vCPUs, and only when they change.
func TestGuestQueries(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		before := r.Reads().Guest
		r.setDesired(func(w *podapi.Desired) { w.CPUQuota = api.CPUQuota{Percent: 50} })
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(10 * time.Second)
		r.agent.lastReport(t, podapi.StateDone)
		if got := r.Reads().Guest; got != before {
			t.Errorf("%d queries of the guest for bandwidth and memory", got-before)
		}
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(10 * time.Second)
		if done := r.agent.lastReport(t, podapi.StateDone); done.Actual.Online != 2 ||
			r.Reads().Guest == before {
			t.Errorf("report %+v, want a query of the guest for its vCPUs", done)
		}
	})
}
