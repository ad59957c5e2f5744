package coordinator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// An order was lost, came late, and was not confirmed: it is left at first. The next
// attempt takes the journal up, and so does not take what is unconfirmed for done.
func TestSuspendedRunResumes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.hypervisor.DisconnectOnCall(virttest.Before)
		time.AfterFunc(time.Second, r.hypervisor.Reconnect)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(40 * time.Second)
		if last := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(last.Error, "the guest uses 1 of its 2 vCPUs") {
			t.Errorf("report %+v", last)
		}
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Fatalf("vCPUs %+v, want those that were ordered", s.VCPUs)
		}
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateFailed)
		if calls := strings.Join(r.Calls(), "|"); !strings.Contains(calls, "set vCPUs to 1") {
			t.Errorf("calls %s, want it undone", calls)
		}
	})
}

// vCPUs that stay unused and that QEMU does not give back are no success of a later attempt.
func TestUnusedVCPUsStayFailed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true, KeepVCPUs: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(10 * time.Minute)
		for _, told := range r.agent.allReports() {
			if told.State == podapi.StateDone && told.Generation == 2 {
				t.Errorf("told %+v", told)
			}
		}
		r.SetGuest(virttest.Guest{})
		r.Set(func(s *virt.State) { s.VCPUs.Online = 2 }) // its user has brought it online
		time.Sleep(10 * time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
	})
}

// A VM that is started anew in the middle, under the same UUID, is not taken for the one
// that was resized.
func TestRestartDuringResize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		once := false
		r.agent.onReport = func(p podapi.Report) {
			if p.State == podapi.StateResizing && len(p.Steps) > 0 && !once {
				once = true
				r.Set(func(s *virt.State) { s.VCPUs.Plugged, s.VCPUs.Online = 1, 1 })
			}
		}
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		if last := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(last.Error, "started anew") {
			t.Errorf("report %+v", last)
		}
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v", s.VCPUs)
		}
	})
}

// What becomes of an earlier resize is told of that one, and not of what is wanted now.
func TestRecoveredRunIsReported(t *testing.T) {
	j := &memory{}
	earlier := target.Target{Generation: 1, Size: api.Size{VCPUs: 3}}
	record := resize.Record{Domain: state().UUID, Target: earlier, Phase: resize.RollingBack, Started: 1, Steps: resize.Steps{
		resize.SetVCPUs{From: 1, To: 3, Used: 1, Within: time.Second},
	}}
	if err := j.Store(record); err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(c *coordinator.Config) {
		c.Journal = j
		c.Agent.(*agent).desired.Generation, c.Agent.(*agent).desired.VCPUs = 2, 2
	}, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		for _, told := range r.agent.allReports() {
			if failed := told.State == podapi.StateFailed; failed != (told.Generation == 1) {
				t.Errorf("told %+v", told)
			}
		}
	})
}

// A VM that ends, and is started anew as libvirt comes back, is resized as what it is.
func TestRestartWithoutLibvirt(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		r.agent.lastReport(t, podapi.StateDone)
		before := len(r.agent.allReports())
		r.hypervisor.Disconnect()
		r.hypervisor.Restart(state())
		time.Sleep(5 * time.Second)
		r.hypervisor.Reconnect()
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		s, err := r.hypervisor.First().State(t.Context())
		if err != nil || s.VCPUs.Plugged != 2 || s.Memory.Devices[0].Current != uint64(gi) || len(r.agent.allReports()) == before {
			t.Errorf("%+v, %v, want 2 vCPUs and 2 GiB again", s, err)
		}
	})
}

// What a VM needed that has ended is not said of the next one.
func TestRequirementEndsWithVM(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		if need := r.agent.memoryRequirement(); need != 3*uint64(gi) {
			t.Fatalf("it needs %d", need)
		}
		r.Set(func(s *virt.State) { s.Phase = virt.ShutOff })
		time.Sleep(10 * time.Second)
		if need := r.agent.memoryRequirement(); need != 0 {
			t.Errorf("it needs %d, and has ended", need)
		}
	})
}

// Nor is it when an earlier shim has begun the resize.
func TestRestartDuringRecovery(t *testing.T) {
	j := &memory{}
	record := resize.Record{Domain: state().UUID, Target: target.Target{Generation: 1, Size: api.Size{VCPUs: 2}}, Phase: resize.Running}
	if err := j.Store(record); err != nil {
		t.Fatal(err)
	}
	inBubble(t, func(c *coordinator.Config) {
		a, d, once := c.Agent.(*agent), c.Connection.(*virttest.Fake).First(), false
		c.Journal, a.desired.VCPUs = j, 2
		a.onReport = func(p podapi.Report) {
			if p.State == podapi.StateResizing && len(p.Steps) > 0 && !once {
				once = true
				d.Set(func(s *virt.State) { s.VCPUs.Plugged, s.VCPUs.Online = 1, 1 })
			}
		}
	}, func(t *testing.T, r *rig) {
		time.Sleep(time.Minute)
		if states, want := r.agent.reportedStates(), []podapi.State{
			podapi.StateResizing, podapi.StateFailed, podapi.StateResizing, podapi.StateDone,
		}; !slices.Equal(states, want) {
			t.Errorf("states %v, want %v", states, want)
		}
	})
}
