package suite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/node"
)

// process identifies a process until the node's end: the kernel reuses pids, but not together
// with a start time.
type process struct {
	pid   int
	start uint64 // field 22 of proc_pid_stat(5)
}

func (p process) String() string { return fmt.Sprintf("%d (started at %d)", p.pid, p.start) }

// stat is a part of proc_pid_stat(5).
type stat struct {
	state byte
	start uint64
}

// parseStat parses a line of proc_pid_stat(5). Its second field, the program's name, may contain
// any character.
func parseStat(text string) (stat, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return stat{}, fmt.Errorf("want a line of proc_pid_stat(5): %q", text)
	}
	start, err := strconv.ParseUint(fields[22-3], 10, 64)
	return stat{state: fields[0][0], start: start}, err
}

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 0 -1 4194560 6 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3"
	for text, want := range map[string]stat{
		"7 (sh) S" + rest:           {'S', 4711},
		"7 (a) R (b) Z" + rest:      {'Z', 4711},
		"7 (qemu-system-x86) " + "": {},
		"7 (sh) S 1 2":              {},
	} {
		got, err := parseStat(text)
		if got != want || (err == nil) != (want != stat{}) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// processOf returns the present process with this pid.
func (f fixture) processOf(ctx context.Context, pid int) (process, error) {
	text, err := f.Output(ctx, "cat", fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, fmt.Errorf("finding process %d: %w", pid, err)
	}
	s, err := parseStat(text)
	return process{pid, s.start}, err
}

// isAlive reports whether a process has not ended. A zombie has ended.
func (f fixture) isAlive(t *testing.T, p process) bool {
	t.Helper()
	text, err := f.Output(t.Context(), "cat", fmt.Sprintf("/proc/%d/stat", p.pid))
	if exit := new(node.ExitError); errors.As(err, &exit) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := parseStat(text)
	if err != nil {
		t.Fatal(err)
	}
	return s.start == p.start && s.state != 'Z' && s.state != 'X'
}

// awaitEnd waits until a process has ended.
func (f fixture) awaitEnd(t *testing.T, p process) {
	t.Helper()
	eventually(t, "process "+p.String()+" to end", func() bool { return !f.isAlive(t, p) },
		func() string { return f.describe(t, p) })
}

// describe returns state and cgroup of a process, for messages.
func (f fixture) describe(t *testing.T, p process) string {
	t.Helper()
	const script = `ps -o pid,ppid,stat,args -p $1; cat /proc/$1/cgroup`
	return f.output(t, "sh", "-c", script+"; true", "sh", strconv.Itoa(p.pid))
}

// signal sends a signal to a process of the node.
func (f fixture) signal(ctx context.Context, name string, p process) error {
	_, err := f.Output(ctx, "kill", "-"+name, strconv.Itoa(p.pid))
	return err
}

// move moves a process into a cgroup. It creates a missing cgroup.
func (f fixture) move(ctx context.Context, p process, cgroup string) error {
	_, err := f.Output(ctx, "sh", "-c",
		`mkdir -p "/sys/fs/cgroup$1" && echo $2 >"/sys/fs/cgroup$1/cgroup.procs"`, "sh", cgroup,
		strconv.Itoa(p.pid))
	if err != nil {
		return fmt.Errorf("moving process %s to cgroup %s: %w", p, cgroup, err)
	}
	return nil
}

// cgroupOf returns the path of a process's cgroup below the mount point.
func (f fixture) cgroupOf(ctx context.Context, p process) (string, error) {
	return f.Output(ctx, "sed", "-n", "s/^0:://p", fmt.Sprintf("/proc/%d/cgroup", p.pid))
}

// emulators returns the processes in and below a cgroup that execute QEMU. Their names do not
// matter.
func (f fixture) emulators(ctx context.Context, cgroup string) ([]process, error) {
	const script = `for p in $(find "/sys/fs/cgroup$1" -name cgroup.procs -exec cat {} +); do
		case $(readlink "/proc/$p/exe") in */qemu-system-*) echo "$p";; esac
	done`
	out, err := f.Output(ctx, "sh", "-c", script, "sh", cgroup)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, text := range strings.Fields(out) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		p, err := f.processOf(ctx, pid)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
