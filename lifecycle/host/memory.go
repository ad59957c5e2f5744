package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// MemoryMax reads memory.max of a cgroup. One without such a file, as where the memory
// controller is not enabled, has no limit.
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
		return 0, fmt.Errorf("memory.max of cgroup %s: %.40q is no amount", cgroup, content)
	}
	return limit, nil
}

// Room returns how many bytes of memory the node has yet for a pod whose cgroup that
// is: MemAvailable of proc_meminfo(5), and no more than each cgroup above the pod's has
// left below its memory.max. What counts as used there is memory.current less
// inactive_file, which the kernel reclaims before it kills; kubelet calls that the
// working set. The pod's own limit is not looked at: it is what is to change.
func Room(k Kernel, pod string) (uint64, error) {
	room, err := k.MemAvailable()
	if err != nil {
		return 0, err
	}
	for dir := pod; dir != "/"; {
		dir = path.Dir(dir)
		left, err := leftIn(k, dir)
		if err != nil {
			return 0, err
		}
		room = min(room, left)
	}
	return room, nil
}

// leftIn is how much memory a cgroup may use yet.
func leftIn(k Kernel, cgroup string) (uint64, error) {
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

// statOf returns a value of memory.stat, 0 where there is none of that name.
func statOf(content, name string) uint64 {
	for line := range strings.Lines(content) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64) // 0 is the safe side
			return n
		}
	}
	return 0
}

func ParseLimit(content string) (Limit, bool) {
	content = strings.TrimSpace(content)
	if content == "max" {
		return Unlimited, true
	}
	n, err := strconv.ParseUint(content, 10, 64)
	return Limit(n), err == nil
}
