package gate

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// processAlive reports whether the process with this pid and start time lives. A zombie has ended.
func processAlive(pid int, ticks uint64) (bool, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return runs(string(stat), ticks)
}

// runs reads a line of proc_pid_stat(5). The process chooses field 2, its command name, which may
// contain spaces and parentheses. So the fields count from the last closing parenthesis.
func runs(stat string, ticks uint64) (bool, error) {
	const state, start = 0, 19 // fields 3 and 22 of the page
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) <= start {
		return false, fmt.Errorf("stat line %.80q: want a start time", stat)
	}
	started, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return false, fmt.Errorf("stat line: start time: %w", err)
	}
	return started == ticks && !strings.ContainsAny(fields[state], "ZXx"), nil
}

// Now returns the time since the node's boot.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME must exist on Linux: %v", err))
	}
	return time.Duration(ts.Nano())
}
