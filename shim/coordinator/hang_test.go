package coordinator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// silentAgent is an agent that answers no request while silent is set.
type silentAgent struct {
	*agent
	silent atomic.Bool
}

func (m *silentAgent) blockIfSilent(ctx context.Context) error {
	if !m.silent.Load() {
		return nil
	}
	<-ctx.Done()
	return errors.Join(resize.ErrAgent, ctx.Err())
}

func (m *silentAgent) Desired(ctx context.Context) (podapi.Desired, error) {
	if err := m.blockIfSilent(ctx); err != nil {
		return podapi.Desired{}, err
	}
	return m.agent.Desired(ctx)
}

func (m *silentAgent) Report(ctx context.Context, r podapi.Report) error {
	return errors.Join(m.blockIfSilent(ctx), m.agent.Report(ctx, r))
}

func (m *silentAgent) Limits(ctx context.Context) (resize.Limits, error) {
	if err := m.blockIfSilent(ctx); err != nil {
		return resize.Limits{}, err
	}
	return m.agent.Limits(ctx)
}

func (m *silentAgent) Hold(ctx context.Context, d time.Duration, growth uint64) error {
	return errors.Join(m.blockIfSilent(ctx), m.agent.Hold(ctx, d, growth))
}

func (m *silentAgent) Lease(ctx context.Context, d time.Duration, reason string) error {
	return errors.Join(m.blockIfSilent(ctx), m.agent.Lease(ctx, d, reason))
}

// expectShutdownRequest expects the first shutdown request within half a second.
func (r *rig) expectShutdownRequest(t *testing.T) {
	t.Helper()
	time.Sleep(time.Second / 2)
	synctest.Wait()
	if r.shutdownRequests() != 1 {
		t.Errorf("%d shutdown requests in half a second, want 1", r.shutdownRequests())
	}
}

// The shutdown does not wait for an agent that never answers, even during a resize.
// The next VM does not wait long either.
func TestStopWithoutAgent(t *testing.T) {
	for name, before := range map[string]func(r *rig){
		"idle": func(*rig) {},
		"during a resize": func(r *rig) {
			r.SetGuest(virttest.Guest{Late: true})
			r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
			time.Sleep(3 * time.Second)
			if holding := func() bool {
				r.agent.mu.Lock()
				defer r.agent.mu.Unlock()
				return r.agent.migrationsHeld
			}; !holding() {
				panic("no resize is running")
			}
		},
		"after a migration": func(r *rig) {
			r.setMigrating(true)
			r.setMigrating(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			silent := &silentAgent{}
			inBubble(t, func(c *coordinator.Config) {
				silent.agent = c.Agent.(*agent)
				c.Agent = silent
			}, func(t *testing.T, r *rig) {
				before(r)
				silent.silent.Store(true)
				r.podStop.Store(true)
				r.expectShutdownRequest(t)
				r.SetGuest(virttest.Guest{})
				r.Set(func(s *virt.State) { s.Phase, s.Migrating = virt.ShutOff, false })
				r.podStop.Store(false)
				time.Sleep(6 * time.Second)
				r.Set(func(s *virt.State) { s.Phase, s.VCPUs = virt.Running, state().VCPUs })
				r.podStop.Store(true)
				time.Sleep(time.Second)
				if s := r.state(t); s.Phase != virt.ShutOff {
					t.Errorf("the next VM: %+v", s)
				}
			})
		})
	}
}

// hangingLibvirt is a libvirt that does not answer queries about VMs while hangs is set. With a
// failure it answers them by the failure.
type hangingLibvirt struct {
	virt.Connection
	failure error
	hangs   atomic.Bool

	mu       sync.Mutex
	answered chan struct{} // closed by answer
}

// wrap takes the place of the libvirt of a configuration.
func (s *hangingLibvirt) wrap(c *coordinator.Config) {
	s.Connection, s.answered = c.Connection, make(chan struct{})
	c.Connection = s
}

// answer ends the hang. Hanging queries get their answers.
func (s *hangingLibvirt) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs.Store(false)
	close(s.answered)
	s.answered = make(chan struct{})
}

func (s *hangingLibvirt) hang(ctx context.Context) error {
	s.mu.Lock()
	answered := s.answered
	s.mu.Unlock()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type hangingDomain struct {
	virt.Domain
	libvirt *hangingLibvirt
}

func (s *hangingLibvirt) Domains(ctx context.Context) ([]virt.Domain, error) {
	all, err := s.Connection.Domains(ctx)
	for i, d := range all {
		all[i] = hangingDomain{d, s}
	}
	return all, err
}

func (d hangingDomain) Life(ctx context.Context) (virt.Life, error) {
	if err := d.blockIfHanging(ctx); err != nil {
		return virt.Life{}, err
	}
	return d.Domain.Life(ctx)
}

func (d hangingDomain) Phase(ctx context.Context) (virt.Phase, error) {
	if err := d.blockIfHanging(ctx); err != nil {
		return "", err
	}
	return d.Domain.Phase(ctx)
}

func (d hangingDomain) blockIfHanging(ctx context.Context) error {
	switch {
	case !d.libvirt.hangs.Load():
		return nil
	case d.libvirt.failure != nil:
		return d.libvirt.failure
	}
	return d.libvirt.hang(ctx)
}

// While libvirt hangs, the shim still notices the pod's request, and asks the guest after a while. It
// ceases to be a stop handler of the agent. The guest has its grace period in all.
func TestStopWithHangingLibvirt(t *testing.T) {
	s := &hangingLibvirt{}
	inBubble(t, s.wrap, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{IgnoreShutdown: true})
		s.hangs.Store(true)
		time.Sleep(30 * time.Second) // the shim has nothing to ask
		time.Sleep(19 * time.Second)
		if r.agent.handlerCount() != 1 {
			t.Error("no stop handler after only 19 s without an answer")
		}
		time.Sleep(4 * time.Second)
		if r.agent.handlerCount() != 0 {
			t.Error("still a stop handler after 23 s without an answer")
		}
		r.podStop.Store(true)
		time.Sleep(longestWait)
		r.expectShutdownRequest(t)
		time.Sleep(gracePeriod - longestWait)
		if !slices.Contains(r.Calls(), "destroy it") {
			t.Errorf("calls %v, want the VM destroyed in the end", r.Calls())
		}
	})
}

// gracePeriod is the default of the guest's grace period.
const gracePeriod = 30 * time.Second

// longestWait is the longest wait of the pod's request for libvirt.
const longestWait = 10 * time.Second

// Without an answer of libvirt since the pod's request, the VM may be migrating. The shim asks the
// guest only after a while.
func TestStopWithoutAnswer(t *testing.T) {
	for name, failure := range map[string]error{
		"hangs":  nil,
		"fails":  errors.New("cannot acquire state change lock"),
		"unable": virt.ErrUnsupported,
		"away":   virt.ErrConnection,
	} {
		t.Run(name, func(t *testing.T) {
			s := &hangingLibvirt{failure: failure}
			inBubble(t, s.wrap, func(t *testing.T, r *rig) {
				time.Sleep(10 * time.Second)
				s.hangs.Store(true)
				r.podStop.Store(true)
				time.Sleep(longestWait - time.Second)
				if n := r.shutdownRequests(); n > 0 {
					t.Errorf("%d shutdown requests before the longest wait", n)
				}
				time.Sleep(time.Second)
				r.expectShutdownRequest(t)
			})
		})
	}
}

// A migration has begun without an event, and libvirt answers late.
func TestStopDuringMigrationWithSlowLibvirt(t *testing.T) {
	for name, failure := range map[string]error{
		"hangs": nil, "fails": errors.New("cannot acquire state change lock"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &hangingLibvirt{failure: failure}
			inBubble(t, s.wrap, func(t *testing.T, r *rig) {
				time.Sleep(10 * time.Second)
				r.SetSilently(func(s *virt.State) { s.Migrating = true })
				s.hangs.Store(true)
				r.podStop.Store(true)
				time.Sleep(longestWait - 3*time.Second)
				s.answer()
				time.Sleep(10 * time.Minute)
				if n := r.shutdownRequests(); n > 0 {
					t.Fatalf("%d shutdown requests to a migrating guest", n)
				}
				r.expectLease(t, true)
				r.setMigrating(false)
				r.expectShutdownRequest(t)
			})
		})
	}
}

// If libvirt answers late, the shim asks a guest that does not migrate at once.
func TestStopWithSlowLibvirt(t *testing.T) {
	s := &hangingLibvirt{}
	inBubble(t, s.wrap, func(t *testing.T, r *rig) {
		time.Sleep(10 * time.Second)
		s.hangs.Store(true)
		r.podStop.Store(true)
		time.Sleep(5 * time.Second)
		s.answer()
		r.expectShutdownRequest(t)
	})
}

// A busy libvirt takes longer for each answer than the shim's period of reads. The shim asks the
// guest after the first answer to a read that began after the request.
func TestStopWithSlowAnswers(t *testing.T) {
	const each = 3 * time.Second
	inBubble(t, func(c *coordinator.Config) {
		c.Connection = slowLibvirt{c.Connection, each}
	}, func(t *testing.T, r *rig) {
		time.Sleep(10 * time.Second)
		r.podStop.Store(true)
		time.Sleep(2*each + time.Second)
		if r.shutdownRequests() == 0 {
			t.Error("no shutdown request after two answers")
		}
	})
}

// slowLibvirt takes a time for each answer about a VM's life.
type slowLibvirt struct {
	virt.Connection
	each time.Duration
}

type slowDomain struct {
	virt.Domain
	each time.Duration
}

func (s slowLibvirt) Domains(ctx context.Context) ([]virt.Domain, error) {
	all, err := s.Connection.Domains(ctx)
	for i, d := range all {
		all[i] = slowDomain{d, s.each}
	}
	return all, err
}

func (d slowDomain) Life(ctx context.Context) (virt.Life, error) {
	l, err := d.Domain.Life(ctx)
	time.Sleep(d.each)
	return l, err
}

// After the pod's request a VM gets no other size, also while the shim waits for libvirt.
func TestNoResizeBeforeAStop(t *testing.T) {
	s := &hangingLibvirt{}
	inBubble(t, s.wrap, func(t *testing.T, r *rig) {
		time.Sleep(10 * time.Second)
		s.hangs.Store(true)
		r.podStop.Store(true)
		time.Sleep(time.Second)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(longestWait - 2*time.Second)
		if got, want := r.state(t).VCPUs, state().VCPUs; got != want {
			t.Errorf("vCPUs %+v, want %+v as before the request", got, want)
		}
	})
}
