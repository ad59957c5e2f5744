package policy

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/mooring-vm/mooring/api"
)

const (
	mib         = 1 << 20 // unit of plugged memory
	maxCapacity = 1 << 62 // bytes: far from any overflow
)

type headroomFields struct {
	MemoryCapacity json.RawMessage `json:"memoryCapacity"`
	CPUCapacity    json.RawMessage `json:"cpuCapacity"`
}

func (r *reader) headroom(f headroomFields) Headroom {
	return Headroom{
		Memory: optional(r, "headroom.memoryCapacity", f.MemoryCapacity, 0, memoryCapacity),
		CPUs:   optional(r, "headroom.cpuCapacity", f.CPUCapacity, 0, cpuCapacity),
	}
}

func memoryCapacity(raw json.RawMessage) (int64, error) {
	n, err := quantity(raw)
	if err == nil && (n == 0 || n%mib != 0 || n > maxCapacity) {
		err = fmt.Errorf("want whole MiB, from 1Mi to %s; leave it out for the node's memory",
			api.Bytes(maxCapacity))
	}
	return n, err
}

// cpuCapacity reads a number without quotes.
func cpuCapacity(raw json.RawMessage) (int, error) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 1 || n > api.MaxVCPUs {
		return 0, fmt.Errorf("want a number of vCPUs between 1 and %d; leave it out for the "+
			"node's CPUs", api.MaxVCPUs)
	}
	return n, nil
}
