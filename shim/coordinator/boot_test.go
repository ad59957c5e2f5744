package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// A guest that still boots takes no memory: the shim reports that it waits, and no failure.
func TestBootingGuest(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(3 * time.Minute)
		waiting := r.agent.lastReport(t, podapi.StateResizing)
		if !strings.Contains(strings.Join(waiting.Notes, " "), "may still boot") {
			t.Errorf("report %+v, want a note about the boot", waiting)
		}
		r.SetGuest(virttest.Guest{})
		r.AnswerPending()
		time.Sleep(2 * time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
		for _, report := range r.agent.allReports() {
			if report.State == podapi.StateFailed {
				t.Errorf("report %+v of a guest that boots", report)
			}
		}
	})
}

// A guest that never takes memory does not boot for ever.
func TestGuestIgnoresMemory(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{Late: true})
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(10 * time.Minute)
		if failed := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(failed.Error,
			"memory device virtiomem0 has 0") {
			t.Errorf("report %+v", failed)
		}
	})
}

// A guest that has taken memory before has booted, and a guest that has taken a part, too.
func TestGuestRefusesMemory(t *testing.T) {
	for name, prepare := range map[string]func(r *rig){
		"after a resize": func(r *rig) {
			r.setDesired(func(w *podapi.Desired) { w.Memory = 3 * gi / 2 })
			time.Sleep(time.Second)
			r.SetGuest(virttest.Guest{Late: true})
		},
		"part": func(r *rig) { r.SetGuest(virttest.Guest{TakeMemory: 64 * mi}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				prepare(r)
				r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
				time.Sleep(90 * time.Second)
				r.agent.lastReport(t, podapi.StateFailed)
			})
		})
	}
}
