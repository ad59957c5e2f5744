package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// refusalsPeriod is the time between two reads of the refusals.
const refusalsPeriod = 5 * time.Second

// watchRefusals reports each start of a domain that the start gate would refuse in enforce mode.
func (a *Agent) watchRefusals(ctx context.Context) {
	ticker := time.NewTicker(refusalsPeriod)
	defer ticker.Stop()
	for {
		a.reportRefusals()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (a *Agent) reportRefusals() {
	all, err := gate.TakeRefusals(filepath.Join(a.config.Root, gate.RefusalsName))
	if err != nil {
		a.logger.Warn("some refusals of the start gate are unreadable", "error", err)
	}
	for _, r := range all {
		a.recorders().Record(refusalEvent(r))
	}
}

// refusalEvent returns an Event of the node: the domain has no pod.
func refusalEvent(r gate.Refusal) agentapi.Event {
	return agentapi.Event{
		Time: time.Now(), Type: agentapi.Warning, Reason: agentapi.ReasonWouldRefuse,
		Message: fmt.Sprintf(policy.Observing+"would refuse the start of domain %q: %s",
			r.Domain, r.Reason),
	}
}
