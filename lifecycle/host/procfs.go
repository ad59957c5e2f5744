package host

import (
	"fmt"
	"strconv"
	"strings"
)

// parseStartTime reads field 22 of /proc/<pid>/stat. The process chooses field 2, its command name,
// which may contain spaces and parentheses. So the fields count from the last closing parenthesis.
func parseStartTime(stat string) (uint64, error) {
	const afterName = 22 - 3 // the first field after the name is field 3
	rest, ok := afterLast(stat, ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) <= afterName {
		return 0, fmt.Errorf("stat line %.80q has no start time", stat)
	}
	start, err := strconv.ParseUint(fields[afterName], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stat line: start time: %w", err)
	}
	return start, nil
}

// parseLocked returns the larger of VmLck and VmPin of /proc/<pid>/status, in bytes. A zombie has
// neither.
func parseLocked(status string) (uint64, error) {
	locked, ok := kibibytes(status, "VmLck:")
	if !ok {
		return 0, fmt.Errorf("it has no memory left: %w", ErrGone)
	}
	pinned, _ := kibibytes(status, "VmPin:") // Linux 3.2
	return max(locked, pinned), nil
}

// kibibytes finds a line such as "VmLck:      64 kB" and returns its value in bytes.
func kibibytes(content, name string) (uint64, bool) {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != name || fields[2] != "kB" {
			continue
		}
		kib, err := strconv.ParseUint(fields[1], 10, 53)
		return kib << 10, err == nil
	}
	return 0, false
}

// parseCgroup reads the cgroup v2 path from /proc/<pid>/cgroup. The path may contain colons, and
// ends in " (deleted)" if the cgroup of a zombie was removed.
func parseCgroup(content string) (string, error) {
	for line := range strings.Lines(content) {
		path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if !ok {
			continue
		}
		if strings.HasSuffix(path, " (deleted)") {
			return "", fmt.Errorf("cgroup %s: %w", path, ErrGone)
		}
		return path, nil
	}
	return "", fmt.Errorf("no cgroup v2 line in %.80q", content)
}

// parsePIDs reads cgroup.procs. A process from outside of this pid namespace is shown as 0 and
// skipped.
func parsePIDs(content string) ([]int, error) {
	var pids []int
	for line := range strings.Lines(content) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("cgroup.procs: %w", err)
		}
		if pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// afterLast returns the part of s after the last sep.
func afterLast(s, sep string) (after string, found bool) {
	at := strings.LastIndex(s, sep)
	if at < 0 {
		return "", false
	}
	return s[at+len(sep):], true
}
