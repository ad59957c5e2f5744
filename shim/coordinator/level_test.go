package coordinator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// Another client shrinks the VM after the resize. The shim reports the change and corrects it.
func TestDrift(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		time.Sleep(time.Second)
		r.agent.lastReport(t, podapi.StateDone)
		reported := len(r.agent.allReports())
		time.Sleep(time.Hour)
		if more := r.agent.allReports()[reported:]; len(more) > 0 {
			t.Fatalf("reports %+v about an unchanged VM", more)
		}
		r.Set(func(s *virt.State) {
			s.Memory.Devices[0].Requested, s.Memory.Devices[0].Current = 0, 0
		})
		time.Sleep(time.Minute)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Actual.Memory != 2*gi || !strings.Contains(strings.Join(done.Notes, " "),
			"another client changed the VM") {
			t.Errorf("report %+v", done)
		}
		if d := r.state(t).Memory.Devices[0]; d.Current != gi {
			t.Errorf("device %+v, want it at the desired size again", d)
		}
	})
}

// A client that changes the VM again and again cannot make the shim busy.
func TestRepeatedDrift(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(time.Second)
		for range 5000 {
			r.Set(func(s *virt.State) { s.VCPUs.Plugged, s.VCPUs.Online = 1, 1 })
			time.Sleep(700 * time.Millisecond)
		}
		// A change in the middle of a correction costs a few more calls.
		if n := len(r.Calls()); n < 8 || n > 40 {
			t.Errorf("%d calls for corrections in an hour, want pauses up to 5 min between them", n)
		}
	})
}

// Without a resize the shim leaves the limits to kubelet.
func TestNoRequirementWithoutResize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Limits.Memory = 512 * mi })
		time.Sleep(time.Minute)
		if required := r.agent.memoryRequirement(); required != 0 {
			t.Errorf("requirement %d MiB", required/mi)
		}
	})
}

// A failed and withdrawn resize leaves the memory requirement of the VM's actual size.
func TestRequirementAfterFailure(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		time.Sleep(2 * time.Minute)
		r.agent.lastReport(t, podapi.StateFailed)
		r.setDesired(func(w *podapi.Desired) {
			w.VCPUs, w.Memory, w.Limits.Memory = 0, 0, 2*gi+256*mi
		})
		time.Sleep(2 * time.Minute)
		if required := r.agent.memoryRequirement(); required != 2*gi {
			t.Errorf("requirement %d MiB, want 2 GiB for a guest of 1 GiB", required/mi)
		}
		limits, err := r.agent.Limits(t.Context())
		if err != nil || limits.ContainerMax != 2*gi+256*mi {
			t.Errorf("memory.max %d MiB, %v, want the pod's new limit", limits.ContainerMax/mi, err)
		}
	})
}

// A new desired size interrupts a shrink that the guest refuses.
func TestWithdrawnShrink(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(time.Second)
		r.SetGuest(virttest.Guest{KeepMemory: gi})
		r.setDesired(func(w *podapi.Desired) { w.Memory = gi })
		time.Sleep(10 * time.Second)
		r.agent.lastReport(t, podapi.StateResizing)
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(5 * time.Second)
		r.agent.lastReport(t, podapi.StateDone)
		if d := r.state(t).Memory.Devices[0]; d.Requested != gi || d.Current != gi {
			t.Errorf("device %+v, want no open request", d)
		}
	})
}

// A size that is withdrawn during its resize is rolled back at once.
func TestWithdrawnGrowth(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 2, 2*gi })
		time.Sleep(10 * time.Second)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 0, 0 })
		time.Sleep(5 * time.Second)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Actual.Memory != gi || done.Actual.VCPUs != 1 {
			t.Errorf("report %+v", done)
		}
	})
}

// A guest of 512 GiB takes and releases 4 GiB/s. Each step has its time after the last progress.
func TestLargeGuest(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) {
		c.Policy.Timeouts.Grow, c.Policy.Timeouts.Shrink = time.Minute, time.Minute
	}, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) {
			s.Memory.Maximum, s.Memory.Devices[0].Size = 1024*gi, 1023*gi
		})
		r.SetGuest(virttest.Guest{MemoryPerSecond: 4 * gi})
		for _, memory := range []api.Bytes{512 * gi, gi} {
			r.setDesired(func(w *podapi.Desired) { w.Memory, w.Limits.Memory = memory, 600*gi })
			time.Sleep(100 * time.Second)
			r.agent.lastReport(t, podapi.StateResizing)
			time.Sleep(time.Minute)
			if done := r.agent.lastReport(t, podapi.StateDone); done.Actual.Memory !=
				uint64(memory) || len(done.Steps) > 2 {
				t.Errorf("report %+v", done)
			}
		}
	})
}

// A slow guest that stops moving fails one timeout after its last progress.
func TestGuestStops(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) {
			s.Memory.Maximum, s.Memory.Devices[0].Size = 1024*gi, 1023*gi
		})
		r.SetGuest(virttest.Guest{MemoryPerSecond: 4 * gi, TakeMemory: 400 * gi})
		r.setDesired(func(w *podapi.Desired) { w.Memory, w.Limits.Memory = 512*gi, 600*gi })
		time.Sleep(155 * time.Second)
		r.agent.lastReport(t, podapi.StateResizing)
		time.Sleep(2 * time.Minute)
		failed := r.agent.lastReport(t, podapi.StateFailed)
		if !strings.Contains(failed.Error, "no progress within 1m0s: memory device") {
			t.Errorf("report %+v", failed)
		}
	})
}

// With Follow a domain without headroom keeps its size, and the report is no failure.
func TestFollowWithoutHeadroom(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) { c.Follow = true }, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) {
			s.VCPUs = virt.VCPUs{Plugged: 1, Boot: 1, Maximum: 1, Online: 1}
			s.Memory = virt.Memory{Boot: gi}
		})
		r.setDesired(func(*podapi.Desired) {})
		time.Sleep(time.Minute)
		done := r.agent.lastReport(t, podapi.StateDone)
		want := []string{"vCPUs: the CPU limit allows 4, and the VM can have 1 to 1",
			"memory: the limit allows 2Gi, and the VM can have at most 1Gi"}
		if !slices.Equal(done.Notes, want) || done.Actual.VCPUs != 1 {
			t.Errorf("report %+v, want the notes %q", done, want)
		}
	})
}

// With Follow an impossible dimension does not block the other one.
func TestFollowIndependently(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) {
		c.Follow, c.Policy.Shrink = true, false
	}, func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		r.setDesired(func(w *podapi.Desired) { w.Limits.CPU, w.Limits.Memory = 2000, 4*gi })
		time.Sleep(time.Minute)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Actual.Memory != 3*gi || done.Actual.VCPUs != 4 || !slices.Equal(done.Notes,
			[]string{"the node's policy does not allow a VM to shrink"}) {
			t.Errorf("report %+v", done)
		}
	})
}

// A new number of vCPUs does not interrupt a change of the memory.
func TestUnrelatedChange(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(10 * time.Second)
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(10 * time.Second)
		r.SetGuest(virttest.Guest{})
		r.AnswerPending()
		time.Sleep(10 * time.Second)
		r.agent.lastReport(t, podapi.StateDone)
		want := []string{"request 1073741824 bytes of memory device virtiomem0", "set vCPUs to 2"}
		if calls := r.Calls(); !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
	})
}

// A guest that booted with an odd size gets the next smaller size of whole blocks.
func TestOddBootSize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) { s.Memory.Boot = 955 * mi })
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(time.Second)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Actual.Memory != 2047*mi || !strings.Contains(strings.Join(done.Notes, " "),
			"2Gi requested, and the guest's memory changes in steps of 2Mi: 2047Mi") {
			t.Errorf("report %+v, want 2047Mi and a note", done)
		}
	})
}
