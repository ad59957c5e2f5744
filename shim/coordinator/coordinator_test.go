package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// memoryJournal is a journal in memory.
type memoryJournal struct {
	mu     sync.Mutex
	record *resize.Record
}

func (m *memoryJournal) Load() (resize.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record == nil {
		return resize.Record{}, resize.ErrNoRecord
	}
	return *m.record, nil
}

func (m *memoryJournal) Store(r resize.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record = &r
	return nil
}

// rig is a pod with a VM and a shim, in a synctest bubble.
type rig struct {
	*virttest.Domain
	hypervisor *virttest.Fake
	agent      *agent
	config     coordinator.Config
	podStop    podStop
	stopShim   func()

	booted virt.State // of a new VM
	starts int        // of the VM
}

func inBubble(t *testing.T, change func(*coordinator.Config), test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, change)
		defer func() { r.stopShim() }()
		test(t, r)
	})
}

// newRig starts a shim. The caller must call stopShim.
func newRig(t *testing.T, change func(*coordinator.Config)) *rig {
	t.Helper()
	r := &rig{agent: &agent{}, booted: state()}
	r.agent.desired = podapi.Desired{Generation: 1, Launcher: "compute",
		Limits: podapi.Limits{Memory: 3 * gi, CPU: 4000}}
	r.hypervisor = virttest.New(r.booted)
	r.Domain = r.hypervisor.First()
	r.config = coordinator.Config{
		Connection: r.hypervisor, Agent: r.agent, Journal: &memoryJournal{},
		Overhead:         target.Fixed(uint64(gi)),
		AwaitStopRequest: r.podStop.await,
		Policy:           resize.Policy{Shrink: true},
	}
	if change != nil {
		change(&r.config)
	}
	r.startShim(t)
	return r
}

// startShim starts a coordinator, which runs until stopShim.
func (r *rig) startShim(t *testing.T) {
	t.Helper()
	c, err := coordinator.New(r.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	r.stopShim = sync.OnceFunc(func() { cancel(); <-done })
	synctest.Wait()
}

// state returns a VM that can grow.
func state() virt.State {
	return virt.State{
		UUID: "6b0d8f0e-6e2e-4c52-9d2c-0c1c6a1d2a3b", Name: "vm", Phase: virt.Running,
		VCPUs: virt.VCPUs{Plugged: 1, Boot: 1, Maximum: 8, Online: 1},
		Memory: virt.Memory{Boot: uint64(gi), Maximum: uint64(8 * gi), Cells: 1,
			Devices: []virt.MemoryDevice{
				{Alias: "virtiomem0", Model: virt.VirtioMem, Size: uint64(4 * gi),
					Block: uint64(2 * mi)},
			}},
		Bandwidth: virt.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited,
			Shares: 100, Supported: true},
	}
}

// setDesired changes the desired state and waits until the coordinator waits for time or events.
func (r *rig) setDesired(change func(*podapi.Desired)) {
	r.agent.setDesired(change)
	synctest.Wait()
}

func (r *rig) state(t *testing.T) virt.State {
	t.Helper()
	s, err := r.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Without Follow and without a requested size the VM stays unchanged.
func TestNoDesiredSize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		if calls := r.Calls(); len(calls) != 0 {
			t.Errorf("calls %v", calls)
		}
		r.agent.lastReport(t, podapi.StateDone)
	})
}

// With Follow the VM gets the size that the limits allow.
func TestFollow(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) { c.Follow = true }, func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		s := r.state(t)
		if s.Memory.Devices[0].Current != uint64(gi) || s.VCPUs.Plugged != 4 {
			t.Errorf("memory %+v, vCPUs %+v", s.Memory, s.VCPUs)
		}
		r.setDesired(func(w *podapi.Desired) { w.Limits.CPU = 2500 })
		time.Sleep(time.Second)
		if b := r.state(t).Bandwidth; b.Quota == virt.Unlimited || b.Shares != 100 {
			t.Errorf("bandwidth %+v, want the limit's quota and unchanged shares", b)
		}
	})
}

// With Follow the VM gets the largest size of whole DIMMs within the limit. The removal of a DIMM
// can leave memory below a reduced limit unused. The next comparison fills it with smaller DIMMs.
func TestFollowWithDIMMs(t *testing.T) {
	follow := func(c *coordinator.Config) { c.Follow = true }
	inBubble(t, follow, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) {
			s.Memory = virt.Memory{Boot: uint64(gi), Maximum: uint64(8 * gi), Slots: 4, Cells: 1}
		})
		for _, c := range []struct {
			limit int64 // 1Gi of it is the overhead
			dimms []int64
		}{
			{3*gi + 50*mi, []int64{gi}}, {4*gi - mi, []int64{gi, 896 * mi}},
			{4 * gi, []int64{gi, 896 * mi, 128 * mi}},
			{4*gi - mi, []int64{gi, 896 * mi}}, {3*gi + 50*mi, []int64{gi}},
			{3*gi - mi, []int64{896 * mi}}, {2 * gi, nil},
		} {
			r.setDesired(func(w *podapi.Desired) { w.Limits.Memory = c.limit })
			time.Sleep(time.Minute)
			r.agent.lastReport(t, podapi.StateDone)
			var got []int64
			for _, d := range r.state(t).Memory.Devices {
				got = append(got, int64(d.Size))
			}
			if !slices.Equal(got, c.dimms) {
				t.Errorf("with a limit of %d MiB: DIMMs %v, want %v", c.limit/mi, got, c.dimms)
			}
		}
	})
}

// The shim sets shares together with the bandwidth. Without requested shares it keeps them.
func TestShares(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		for _, c := range []struct {
			percent int // 0: not requested
			shares  int
			then    uint64
		}{{50, 200, 200}, {80, 0, 200}, {0, 50, 50}, {0, 0, 50}} {
			r.setDesired(func(w *podapi.Desired) {
				w.CPUQuota, w.CPUShares = api.CPUQuota{Percent: c.percent}, c.shares
			})
			time.Sleep(time.Second)
			if done := r.agent.lastReport(t, podapi.StateDone); done.Actual.Shares != c.then ||
				r.state(t).Bandwidth.Shares != c.then {
				t.Errorf("report %+v, bandwidth %+v, want %d shares", done.Actual,
					r.state(t).Bandwidth, c.then)
			}
		}
		want := []string{
			"set CPU bandwidth to period 100ms, quota 50ms, shares 200", "set CPU bandwidth to " +
				"period 100ms, quota 80ms, shares 0",
			"set CPU bandwidth to period 0s, quota 0s, shares 50",
		}
		if calls := r.Calls(); !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
}

// Without a CPU controller libvirt cannot set shares.
func TestSharesWithoutController(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) { s.Bandwidth = virt.Bandwidth{} })
		r.setDesired(func(w *podapi.Desired) {
			w.CPUQuota, w.CPUShares = api.CPUQuota{Percent: 400}, 200
		})
		refused := r.agent.lastReport(t, podapi.StateRefused)
		if !strings.Contains(refused.Error, "CPU shares: this libvirt cannot change them") ||
			strings.Contains(refused.Error, "bandwidth") || len(r.Calls()) != 0 {
			t.Errorf("report %+v, calls %v", refused, r.Calls())
		}
	})
}

func TestResize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 3, 2*gi })
		time.Sleep(time.Second)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Generation != 2 || len(done.Steps) == 0 || done.Actual == nil ||
			done.Actual.VCPUs != 3 || done.Actual.Memory != uint64(2*gi) {
			t.Errorf("report %+v", done)
		}
		if states, want := r.agent.reportedStates(), []podapi.State{podapi.StateDone,
			podapi.StateResizing, podapi.StateDone}; !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}

// The shim reports a refusal once, with all reasons, and changes nothing.
func TestRefused(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Limits.CPU = 9, 16000 })
		refused := r.agent.lastReport(t, podapi.StateRefused)
		if !strings.Contains(refused.Error, "9") || len(r.Calls()) != 0 {
			t.Errorf("report %+v, calls %v", refused, r.Calls())
		}
		reported := len(r.agent.reports)
		time.Sleep(time.Hour)
		if len(r.agent.reports) != reported {
			t.Errorf("reports %+v", r.agent.reports[reported:])
		}
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 3; w.Limits.CPU = 2000 })
		if refused := r.agent.lastReport(t, podapi.StateRefused); !strings.Contains(refused.Error,
			"vcpus.resize.mooring.dev") {
			t.Errorf("report %+v", refused)
		}
	})
}

// A guest that ignores one attempt may follow a later one.
func TestRetry(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(20 * time.Minute)
		if failed := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(failed.Error,
			"vCPUs") || len(r.agent.reportedStates()) != 3 {
			t.Errorf("reports %+v", r.agent.reports)
		}
		r.SetGuest(virttest.Guest{})
		time.Sleep(6 * time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		if s := r.state(t); s.VCPUs.Online != 2 {
			t.Errorf("vCPUs %+v", s.VCPUs)
		}
	})
}

// A new shim rolls back the steps of a dead one, even if the desired size has become impossible.
// Otherwise the VM would exceed its lowered limits until the pod requests less.
func TestStartedAndNotDesired(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		time.Sleep(10 * time.Second)
		r.stopShim()
		if s := r.state(t); s.Memory.Devices[0].Current != uint64(gi) {
			t.Fatalf("memory %+v, want it grown while the vCPUs are pending", s.Memory)
		}
		r.setDesired(func(w *podapi.Desired) { w.Limits.Memory = 2 * gi })
		r.startShim(t)
		time.Sleep(10 * time.Minute)
		if s := r.state(t); s.Memory.Devices[0].Current != 0 {
			t.Errorf("memory %+v", s.Memory)
		}
		if refused := r.agent.lastReport(t, podapi.StateRefused); !strings.Contains(refused.Error,
			"memory.resize.mooring.dev") {
			t.Errorf("report %+v", refused)
		}
	})
}

// After a stop request the guest shuts down, and the shim plugs no device meanwhile. It then
// resizes the next VM.
func TestStop(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.podStop.Store(true)
		time.Sleep(time.Second)
		r.agent.mu.Lock()
		r.agent.desired.VCPUs, r.agent.desired.Generation = 2, 2
		r.agent.mu.Unlock()
		time.Sleep(10 * time.Second)
		r.AnswerPending()
		time.Sleep(time.Second)
		if s := r.state(t); s.Phase != virt.ShutOff || s.VCPUs.Plugged != 1 {
			t.Fatalf("state %+v", s)
		}
		r.podStop.Store(false)
		r.SetGuest(virttest.Guest{})
		r.Set(func(s *virt.State) { s.Phase = virt.Running })
		time.Sleep(10 * time.Second)
		if s := r.state(t); s.Phase != virt.Running || s.VCPUs.Plugged != 2 {
			t.Errorf("the next VM: %+v", s)
		}
	})
}

// The shim draws no conclusion while libvirt or the agent is away.
func TestLibvirtAndAgentAway(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.hypervisor.Disconnect()
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(time.Minute)
		r.agent.mu.Lock()
		r.agent.away = true
		r.agent.mu.Unlock()
		r.hypervisor.Reconnect()
		time.Sleep(time.Minute)
		r.agent.mu.Lock()
		r.agent.away = false
		r.agent.mu.Unlock()
		time.Sleep(10 * time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v", s.VCPUs)
		}
	})
}

func TestNew(t *testing.T) {
	if _, err := coordinator.New(coordinator.Config{Connection: virttest.New()}); err == nil ||
		!strings.Contains(err.Error(), "Agent is required") {
		t.Errorf("error %v", err)
	}
}
