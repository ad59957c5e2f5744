package podapi

import "time"

// PathStop is the path of [Stop]. It takes GET.
const PathStop = "/v1/stop"

// QueryStopHandler is a parameter of [PathChanges]. With the value 1 the client is a stop handler:
// it shuts the guest down on request. While the stream lasts, the agent sends the pod a stop
// request before it ends the VM itself.
const QueryStopHandler = "stops"

// ChangedStop is the kind of a [Change] of the stop request.
const ChangedStop = "stop"

// Stop is the agent's stop request to the pod.
type Stop struct {
	Requested bool   `json:"asked"`
	Reason    string `json:"why,omitempty"`

	// Seconds are the whole seconds left until the agent ends the VM itself.
	Seconds int64 `json:"seconds"`
}

// TimeLeft returns the time left until the agent ends the VM itself.
func (s Stop) TimeLeft() time.Duration { return time.Duration(s.Seconds) * time.Second }
