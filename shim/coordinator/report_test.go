package coordinator_test

import (
	"context"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
)

// busy is an agent that has other things to do when it is told how a resize ended.
type busy struct {
	*agent
	refuses int
}

func (b *busy) Report(ctx context.Context, r podapi.Report) error {
	if r.State != podapi.StateResizing && b.refuses > 0 {
		b.refuses--
		return resize.ErrAgent
	}
	return b.agent.Report(ctx, r)
}

// TestReportIsNotLost: an agent that is away for a moment when a resize ends is told when
// it is back.
func TestReportIsNotLost(t *testing.T) {
	away := func(c *coordinator.Config) { c.Agent = &busy{agent: c.Agent.(*agent), refuses: 3} }
	inBubble(t, away, func(t *testing.T, r *rig) {
		r.want(func(w *podapi.Wanted) { w.VCPUs = 3 })
		time.Sleep(4 * time.Second)
		if done := r.agent.last(t, podapi.StateDone); done.Generation != 2 || len(r.agent.told()) != 3 {
			t.Errorf("reports %+v, want that of each end", r.agent.told())
		}
	})
}
