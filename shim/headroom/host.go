package headroom

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/utils/cpuset"
)

// Host is the default capacity of a domain: the machine's resources, or a replacement from
// [Source].
type Host struct {
	Memory int64 // MiB, rounded down
	CPUs   int
}

// ReadHost reads the machine's memory and CPUs from /proc and /sys below root. Containers see the
// machine's values, whatever their limits.
func ReadHost(root fs.FS) (Host, error) {
	memory, err := hostMemory(root)
	if err != nil {
		return Host{}, fmt.Errorf("the host's memory: %w", err)
	}
	online, err := fs.ReadFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return Host{}, fmt.Errorf("the host's CPUs: %w", err)
	}
	cpus, err := cpuset.Parse(strings.TrimSpace(string(online)))
	if err != nil {
		return Host{}, fmt.Errorf("the host's CPUs: %w", err)
	}
	return Host{Memory: memory, CPUs: cpus.Size()}, nil
}

func hostMemory(root fs.FS) (int64, error) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			return kib >> 10, nil
		}
	}
	return 0, errors.New("proc/meminfo: MemTotal is missing")
}
