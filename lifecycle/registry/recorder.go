package registry

import "github.com/mooring-vm/mooring/api/agentapi"

// Recorder records events of launchers. Record must not block and may be called concurrently.
type Recorder interface {
	Record(agentapi.Event)
}
