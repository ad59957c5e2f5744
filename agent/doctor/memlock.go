package doctor

import (
	"context"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// memlockName begins the line of RLIMIT_MEMLOCK in /proc/PID/limits.
const memlockName = "Max locked memory"

// defaultMemlock checks containerd's memory-lock limit: containers inherit it.
func defaultMemlock(_ context.Context, s *survey) finding {
	if s.runtime.PID == 0 {
		return finding{
			Unknown, "containerd's process is not known",
			"containers without a limit of their own inherit the limit of containerd",
			"see containerd",
		}
	}
	content, err := s.read(procPath(s.runtime.PID, "limits"))
	if err != nil {
		return finding{Unknown, err.Error(), "the limits of containerd cannot be read", asRoot}
	}
	limit, ok := parseMemlock(content)
	found := "soft " + limit.Soft.String() + ", hard " + limit.Hard.String()
	switch {
	case !ok:
		return finding{
			Unknown,
			"no line " + memlockName,
			"the limits of containerd cannot be read",
			"",
		}
	case limit.Soft == host.Unlimited:
		return finding{
			Note, found,
			"every container of the node may lock all of its memory, whatever the node policy says",
			"remove LimitMEMLOCK=infinity from containerd's unit once Mooring enforces",
		}
	case limit.Soft < 8<<20:
		return finding{
			Note, found, "containers without a limit of their own have very little: " +
				"io_uring and eBPF of older kernels may fail in them",
			"this is the default of kernels before 5.16; set LimitMEMLOCK=8M in containerd's " +
				"unit if programs fail",
		}
	}
	return finding{
		OK, found,
		"the limit of containers without one of their own; a VM with passed-through devices " +
			"needs more",
		"",
	}
}

// parseMemlock reads the limit from the content of /proc/PID/limits.
func parseMemlock(limits string) (r host.Rlimit, ok bool) {
	for line := range strings.Lines(limits) {
		rest, is := strings.CutPrefix(line, memlockName)
		fields := strings.Fields(rest)
		if !is || len(fields) < 2 {
			continue
		}
		soft, softOK := parseLimit(fields[0])
		hard, hardOK := parseLimit(fields[1])
		return host.Rlimit{Soft: soft, Hard: hard}, softOK && hardOK
	}
	return r, false
}

func parseLimit(text string) (host.Limit, bool) {
	if text == "unlimited" {
		return host.Unlimited, true
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return host.Limit(n), err == nil
}
