package policy

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/mooring-vm/mooring/api"
)

type resizeFields struct {
	MaxMemory json.RawMessage `json:"maxMemory"`
	MaxVCPUs  json.RawMessage `json:"maxVCPUs"`
}

func (r *reader) resize(path string, f resizeFields) Resize {
	return Resize{
		MaxMemory: optional(r, path+".maxMemory", f.MaxMemory, 0, largestMemory),
		MaxVCPUs:  optional(r, path+".maxVCPUs", f.MaxVCPUs, 0, largestVCPUs),
	}
}

func largestMemory(raw json.RawMessage) (int64, error) {
	n, err := quantity(raw)
	if err == nil && (n < mib || n > maxCapacity) {
		err = fmt.Errorf("want 1Mi to %s; leave it out for no bound", api.Bytes(maxCapacity))
	}
	return n, err
}

// largestVCPUs reads a number without quotes.
func largestVCPUs(raw json.RawMessage) (int, error) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 1 || n > api.MaxVCPUs {
		return 0, fmt.Errorf("want a number of vCPUs between 1 and %d; leave it out for no bound",
			api.MaxVCPUs)
	}
	return n, nil
}
