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

// A call is lost, its repetition takes effect late, and the guest does not confirm it. The shim
// leaves the VM unchanged at first. The next attempt continues from the journal, so it does not
// mistake the unconfirmed step for success.
func TestSuspendedRunResumes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.hypervisor.DisconnectOnCall(virttest.Before)
		time.AfterFunc(time.Second, r.hypervisor.Reconnect)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(40 * time.Second)
		if last := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(last.Error,
			"the guest uses 1 of its 2 vCPUs") {
			t.Errorf("report %+v", last)
		}
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Fatalf("vCPUs %+v, want the 2 that were set", s.VCPUs)
		}
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateFailed)
		if calls := strings.Join(r.Calls(), "|"); !strings.Contains(calls, "set vCPUs to 1") {
			t.Errorf("calls %s, want a rollback", calls)
		}
	})
}

// A later attempt does not report success while the guest does not use the vCPUs, even if QEMU
// cannot remove them.
func TestUnusedVCPUsStayFailed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true, KeepVCPUs: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(10 * time.Minute)
		for _, report := range r.agent.allReports() {
			if report.State == podapi.StateDone && report.Generation == 2 {
				t.Errorf("report %+v", report)
			}
		}
		r.SetGuest(virttest.Guest{})
		r.Set(func(s *virt.State) { s.VCPUs.Online = 2 }) // by the guest's user
		time.Sleep(10 * time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
	})
}

// The resize fails if the VM restarts meanwhile, also with the same UUID. The next attempt resizes
// the new VM.
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
		if last := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(last.Error,
			"the VM restarted") {
			t.Errorf("report %+v", last)
		}
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Errorf("vCPUs %+v", s.VCPUs)
		}
	})
}

// The report about a recovered run has the run's generation, not the current one.
func TestRecoveredRunIsReported(t *testing.T) {
	j := &memoryJournal{}
	earlier := target.Target{Generation: 1, Size: api.Size{VCPUs: 3}}
	record := resize.Record{Domain: state().UUID, Target: earlier, Phase: resize.RollingBack,
		Started: 1, Steps: resize.Steps{
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
		for _, report := range r.agent.allReports() {
			if failed := report.State == podapi.StateFailed; failed != (report.Generation == 1) {
				t.Errorf("report %+v", report)
			}
		}
	})
}

// The VM restarts while libvirt is away. The shim resizes the new VM.
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
		if err != nil || s.VCPUs.Plugged != 2 || s.Memory.Devices[0].Current != uint64(gi) ||
			len(r.agent.allReports()) == before {
			t.Errorf("%+v, %v, want 2 vCPUs and 2Gi again", s, err)
		}
	})
}

// The next VM does not inherit the memory requirement.
func TestRequirementEndsWithVM(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		if bytes := r.agent.memoryRequirement(); bytes != 3*uint64(gi) {
			t.Fatalf("memory requirement %d, want 3Gi", bytes)
		}
		r.Set(func(s *virt.State) { s.Phase = virt.ShutOff })
		time.Sleep(10 * time.Second)
		if bytes := r.agent.memoryRequirement(); bytes != 0 {
			t.Errorf("memory requirement %d after the end of the VM", bytes)
		}
	})
}

// As TestRestartDuringResize, for a run of an earlier shim.
func TestRestartDuringRecovery(t *testing.T) {
	j := &memoryJournal{}
	record := resize.Record{Domain: state().UUID,
		Target: target.Target{Generation: 1, Size: api.Size{VCPUs: 2}}, Phase: resize.Running}
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
