package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// MemoryMax reads memory.max of a cgroup. A missing file, as in the root cgroup, means no limit.
func MemoryMax(k Kernel, cgroup string) (Limit, error) {
	content, err := k.ReadCgroup(cgroup, "memory.max")
	if errors.Is(err, fs.ErrNotExist) {
		return Unlimited, nil
	}
	if err != nil {
		return 0, err
	}
	limit, ok := ParseLimit(content)
	if !ok {
		return 0, fmt.Errorf("memory.max of cgroup %s: %.40q is not a number", cgroup, content)
	}
	return limit, nil
}

// AvailableMemory returns the bytes of memory available on the node for a pod's cgroup:
// MemAvailable of proc_meminfo(5), bounded by the free part of memory.max in each ancestor of the
// pod's cgroup. The use of an ancestor is memory.current without inactive_file, which the kernel
// reclaims before it kills: kubelet's working set. pod is absolute. The pod's own limit does not count, because the
// caller is about to change it.
func AvailableMemory(k Kernel, pod string) (uint64, error) {
	room, err := k.MemAvailable()
	if err != nil {
		return 0, err
	}
	for dir := path.Join("/", pod); dir != "/"; {
		dir = path.Dir(dir)
		left, err := freeIn(k, dir)
		if err != nil {
			return 0, err
		}
		room = min(room, left)
	}
	return room, nil
}

// freeIn returns how much memory a cgroup may still use before it reaches its memory.max.
func freeIn(k Kernel, cgroup string) (uint64, error) {
	most, err := MemoryMax(k, cgroup)
	if err != nil || most == Unlimited {
		return uint64(most), err
	}
	content, err := k.ReadCgroup(cgroup, "memory.current")
	if err != nil {
		return 0, fmt.Errorf("memory of cgroup %s: %w", cgroup, err)
	}
	used, err := strconv.ParseUint(strings.TrimSpace(content), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("memory.current of cgroup %s: %w", cgroup, err)
	}
	stat, err := k.ReadCgroup(cgroup, "memory.stat")
	if err != nil {
		return 0, fmt.Errorf("memory of cgroup %s: %w", cgroup, err)
	}
	used -= min(used, statOf(stat, "inactive_file"))
	return uint64(most) - min(uint64(most), used), nil
}

// statOf returns a value of memory.stat, or 0 if it is missing.
func statOf(content, name string) uint64 {
	for line := range strings.Lines(content) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			// 0 for an unreadable value understates the free memory.
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// ParseLimit parses a cgroup limit in bytes. "max" is Unlimited. ok is false for other text.
func ParseLimit(content string) (Limit, bool) {
	content = strings.TrimSpace(content)
	if content == "max" {
		return Unlimited, true
	}
	n, err := strconv.ParseUint(content, 10, 64)
	return Limit(n), err == nil
}
