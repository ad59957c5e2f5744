package registry

import "github.com/mooring-vm/mooring/api/agentapi"

// Recorder is told what happened to launchers. Record must not block and may be
// called from several goroutines at once.
type Recorder interface {
	Record(agentapi.Event)
}
