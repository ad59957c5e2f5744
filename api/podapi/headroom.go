package podapi

// PathHeadroom is how far the VM is to be able to grow. GET: [Headroom]
const PathHeadroom = "/v1/headroom"

// Headroom is what the owner of the node gives VMs room for when they start, as the node
// policy has it. 0 is what the policy does not say. It is no limit, and nothing is refused
// by it.
type Headroom struct {
	Memory int64 `json:"memoryCapacity,omitempty"` // bytes, whole MiB
	CPUs   int   `json:"cpuCapacity,omitempty"`
}
