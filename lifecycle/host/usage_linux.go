package host

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the use of the node by a process. Memory is in bytes.
type Usage struct {
	Resident, Locked, Pinned uint64 // VmRSS, VmLck and VmPin of proc_pid_status(5)

	// IPCLock reports CAP_IPC_LOCK. RLIMIT_MEMLOCK does not limit such a process.
	IPCLock bool

	CPU time.Duration // CPU time since the start of the process
}

// Usage reads the use of the node by a process. [ErrGone] after its end.
func (k *LinuxKernel) Usage(p Process) (Usage, error) {
	status, err := k.readProc(p.PID, "status")
	if err != nil {
		return Usage{}, err
	}
	stat, err := k.readProc(p.PID, "stat")
	if err != nil {
		return Usage{}, err
	}
	if err := k.verify(p); err != nil {
		return Usage{}, err
	}
	u, err := parseUsage(status, stat)
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", p.PID, err)
	}
	return u, nil
}

// parseUsage reads /proc/<pid>/status and /proc/<pid>/stat. A zombie has no memory.
func parseUsage(status, stat string) (u Usage, err error) {
	resident, ok := kibibytes(status, "VmRSS:")
	if !ok {
		return u, fmt.Errorf("it has no memory left: %w", ErrGone)
	}
	u.Resident = resident
	u.Locked, _ = kibibytes(status, "VmLck:")
	u.Pinned, _ = kibibytes(status, "VmPin:")
	u.IPCLock = hasIPCLock(status)
	u.CPU, err = parseCPUTime(stat)
	return u, err
}

// hasIPCLock reports whether the effective capabilities of a process have CAP_IPC_LOCK.
func hasIPCLock(status string) bool {
	for line := range strings.Lines(status) {
		if text, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && set&(1<<unix.CAP_IPC_LOCK) != 0
		}
	}
	return false
}

// parseCPUTime adds up fields 14 and 15 of /proc/<pid>/stat: user and system time.
func parseCPUTime(stat string) (time.Duration, error) {
	const user, system = 14 - 3, 15 - 3 // the first field after the name is field 3
	rest, ok := afterLast(stat, ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) <= system {
		return 0, fmt.Errorf("stat line %.80q has no CPU time", stat)
	}
	var ticks uint64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseUint(fields[at], 10, 53)
		if err != nil {
			return 0, fmt.Errorf("stat line: CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * Tick, nil
}
