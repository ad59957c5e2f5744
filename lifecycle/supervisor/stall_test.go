package supervisor_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// The node freezes longer than the watchdog, so the launcher could not send a heartbeat either.
func TestFreezeIsLongerThanTheWatchdog(t *testing.T) {
	var suspended atomic.Int64
	change := func(c *supervisor.Config) {
		withAllStops(c)
		c.Clock = suspendableClock{c.Clock, &suspended}
	}
	inBubble(t, change, func(r *rig) {
		r.kernel.Clock = r.config.Clock
		l := r.launch("vm", func(l *registry.Launcher) { l.Watchdog = 5 * time.Second })
		r.podDirs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.Heartbeat = time.Now() })
		r.PodTouched(l.Pod.UID)
		r.advance(0)
		vm := r.startQEMU(l.cgroup)
		suspended.Add(int64(8 * time.Second))
		r.advance(4 * time.Second)
		r.expectSignals(vm)
		r.advance(5 * time.Second)
		r.expectEvent(agentapi.ReasonLauncherHung)
		r.expectSignals(vm, "TERM")
	})
}
