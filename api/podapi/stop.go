package podapi

import "time"

// PathStop is what the agent asks of the pod. GET: [Stop]
const PathStop = "/v1/stop"

// QueryStops is for a query of [PathChanges]. With the value 1 it says that the client ends
// the VM when it is told to: for as long as the stream lasts the agent asks the pod first.
const QueryStopHandler = "stops"

// ChangedStop is what a [Change] is about when the agent asks for something else.
const ChangedStop = "stop"

// Stop says whether the pod is asked to end its VM gracefully.
type Stop struct {
	Requested bool   `json:"asked"`
	Reason    string `json:"why,omitempty"`

	// Seconds are left until the agent ends the VM by itself; parts are left out.
	Seconds int64 `json:"seconds"`
}

// Left is how much time is left until the agent ends the VM by itself.
func (s Stop) TimeLeft() time.Duration { return time.Duration(s.Seconds) * time.Second }
