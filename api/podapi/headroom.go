package podapi

// PathHeadroom is the path of [Headroom]. It takes GET.
const PathHeadroom = "/v1/headroom"

// Headroom is the range for growth that the node policy gives VMs at their start. A field is 0 if
// the policy does not set it. Headroom is not a limit: the agent never refuses a pod because of it.
type Headroom struct {
	Memory int64 `json:"memoryCapacity,omitempty"` // bytes, whole MiB
	CPUs   int   `json:"cpuCapacity,omitempty"`
}
