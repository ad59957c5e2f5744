//go:build cgo && libvirt_dlopen

package command

import (
	"slices"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/headroom"
)

// TestKilledDuringResize kills shim or agent during resizes. It does so at every request to the
// agent with a new kind or a new state of the journal. journal.
func TestKilledDuringResize(t *testing.T) {
	r := newRig(t, headroom.Options{Device: headroom.VirtioMem})
	t.Run("the shim", r.testKilledShim)
	t.Run("the agent", r.testKilledAgent)
}

// sizes are one growing and one shrinking resize. sizes are a resize up and one down.
var sizes = []api.Size{
	{
		Memory:   booted + 64<<20,
		CPUQuota: api.CPUQuota{Percent: 60},
	},
	{Memory: booted, CPUQuota: api.CPUQuota{Percent: 80}},
}

// testKilledShim: the next mooring-shim completes the resize.
func (r *rig) testKilledShim(t *testing.T) {
	for _, size := range sizes {
		finish := r.atEachMoment(r.killShim)
		generation := r.requestSize(t, size)
		var report podapi.Report
		eventually(t, "the VM has the desired size", func() (ended bool) {
			if r.shimHasExited() {
				r.startShim(t)
			}
			report, ended = r.outcome(generation)
			return ended && !r.shimHasExited()
		})
		finish(t)
		if r.shimHasExited() {
			r.startShim(t)
		}
		r.expectDone(t, report, uint64(size.Memory))
	}
}

// testKilledAgent: the shim continues with the next agent. That agent has lost the memory
// requirement and the running resize.
func (r *rig) testKilledAgent(t *testing.T) {
	for _, size := range sizes {
		finish := r.atEachMoment(func() {
			r.killAgent()
			if err := r.startAgent(); err != nil {
				t.Error(err)
			}
		})
		generation := r.requestSize(t, size)
		var report podapi.Report
		eventually(t, "the VM has the desired size", func() (ended bool) {
			report, ended = r.outcome(generation)
			return ended
		})
		finish(t)
		r.expectDone(t, report, uint64(size.Memory))
		if r.shimHasExited() {
			t.Fatal("the shim has ended, too")
		}
	}
}

// atEachMoment calls action once at each moment of a resize, until finish.
func (r *rig) atEachMoment(action func()) (finish func(t *testing.T)) {
	var mu sync.Mutex
	var moments []string
	hook := func(question string) {
		mu.Lock()
		defer mu.Unlock()
		if moment := r.moment(question); !slices.Contains(moments, moment) {
			moments = append(moments, moment)
			action()
		}
	}
	r.beforeAnswer.Store(&hook)
	return func(t *testing.T) {
		t.Helper()
		r.beforeAnswer.Store(nil)
		mu.Lock()
		defer mu.Unlock()
		t.Logf("killed at %q", moments)
		if len(moments) < 10 {
			t.Errorf("killed at %q, want more", moments)
		}
	}
}
