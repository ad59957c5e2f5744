package agent

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/plugin"
)

// listDelay is the time after an absence in which the runtime closes a connection that it has
// dropped meanwhile, and the plugin has made both scans of a new list.
const listDelay = time.Minute

// afterAbsence resumes after a time in which the agent was stopped or the node slept.
func (a *Agent) afterAbsence(ctx context.Context) {
	a.presence.resume(ctx)
	status := func() plugin.Status {
		s, _ := a.connection.Status()
		return s
	}
	confirmList(status, a.supervision.Reconciled)
}

// confirmList calls reconciled if the connection to the runtime outlasts an absence. The runtime
// drops an agent without an answer about a new container, so no launcher is unknown then. After a
// drop the runtime gives a new list.
func confirmList(status func() plugin.Status, reconciled func()) {
	before := status()
	time.AfterFunc(listDelay, func() {
		now := status()
		if now.Phase == plugin.Synchronized && now.Since.Equal(before.Since) {
			reconciled()
		}
	})
}
