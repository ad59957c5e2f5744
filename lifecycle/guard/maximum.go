package guard

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// aboveMaximum is a process with a hard limit above its maximum: the policy's, or a larger limit
// that the agent granted.
type aboveMaximum struct {
	process      host.Process
	has, maximum host.Limit
}

// lowerRaised lowers limits above their maximum that another program, such as virt-handler,
// raised after the start of the container. The limit of the first process shows the limit at the
// start. Without permission to lower, it only reports them.
func (g *Guard) lowerRaised(l registry.Launcher, s *lockScan) {
	var most aboveMaximum
	var failed error
	for _, a := range s.above {
		if a.has <= s.inherited.Hard {
			continue
		}
		if a.has > most.has {
			most = a
		}
		if g.enforces(l) {
			err := host.LowerMemlock(g.Kernel, a.process, a.maximum)
			if !errors.Is(err, host.ErrGone) {
				failed = errors.Join(failed, err)
			}
		}
	}
	if most.has > 0 {
		g.reportAbove(l, aboveMessage(most.has, most.maximum, g.enforces(l), failed))
	}
}

// reportAbove records an Event, at most one per repairEvery.
func (g *Guard) reportAbove(l registry.Launcher, message string) {
	due := false
	g.Registry.Update(l.Container.ID, func(now *registry.Launcher) {
		if now.AboveReportedAt.IsZero() || time.Since(now.AboveReportedAt) >= repairEvery {
			due, now.AboveReportedAt = true, time.Now()
		}
	})
	if due {
		g.Logger.Warn(message, "pod", l.Pod.Namespace+"/"+l.Pod.Name, "container", l.Container.Name)
		g.record(l, agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonLimitAbove,
			Message: message})
	}
}

// enforces reports whether the guard may lower limits of the launcher.
func (g *Guard) enforces(l registry.Launcher) bool {
	return l.Mode == string(policy.Enforce) && g.Enforce != nil && g.Enforce()
}

// aboveMessage leaves out values that change between checks, so that equal Events are counted as
// one.
func aboveMessage(has, maximum host.Limit, enforce bool, failed error) string {
	text := fmt.Sprintf("another program raised a memory lock of the launcher to %s, above the %s "+
		"that the node policy allows", has, maximum)
	errno, isErrno := errors.AsType[syscall.Errno](failed)
	switch {
	case !enforce:
		return policy.Observing + text
	case errors.Is(failed, host.ErrLocked):
		return text + "; not lowered, because a process has locked more"
	case isErrno:
		return text + "; not lowered: " + errno.Error()
	case failed != nil:
		return text + "; not lowered, because another program sets it as well"
	}
	return text + "; lowered"
}
