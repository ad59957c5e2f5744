package host

import (
	"errors"
	"testing"
	"time"
)

func TestParseUsage(t *testing.T) {
	const stat = "42 (a) b) S 1 42 42 0 -1 4194560 99 0 0 0 150 50 0 0 20 0 1 0 900 0 0"
	for name, c := range map[string]struct {
		status, stat string
		want         Usage
		ok           bool
	}{
		"all": {"VmRSS:\t 4 kB\nVmLck:\t 2 kB\nVmPin:\t 1 kB\n", stat,
			Usage{4 << 10, 2 << 10, 1 << 10, false, 2 * time.Second}, true},
		"without a limit": {"VmRSS:\t 4 kB\nCapEff:\t0000000000004000\n", stat,
			Usage{Resident: 4 << 10, IPCLock: true, CPU: 2 * time.Second}, true},
		"another capability": {"VmRSS:\t 4 kB\nCapEff:\t0000000000000400\n", stat,
			Usage{Resident: 4 << 10, CPU: 2 * time.Second}, true},
		"no pinned":  {"VmRSS:\t 4 kB\n", stat, Usage{Resident: 4 << 10, CPU: 2 * time.Second}, true},
		"short stat": {"VmRSS:\t 4 kB\n", "42 (a) S 1", Usage{}, false},
		"no number":  {"VmRSS:\t 4 kB\n", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 1", Usage{}, false},
		"empty stat": {"VmRSS:\t 4 kB\n", "", Usage{}, false},
		"zombie":     {"Name:\tqemu\n", stat, Usage{}, false},
	} {
		got, err := parseUsage(c.status, c.stat)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	if _, err := parseUsage("", stat); !errors.Is(err, ErrGone) {
		t.Errorf("zombie: %v, want ErrGone", err)
	}
}

// The kernel's figures of a live process, and none of a process with another start time.
func TestUsage(t *testing.T) {
	k := &LinuxKernel{proc: "/proc"}
	pid := sleeper(t)
	start, err := k.startTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.Usage(ProcessAt(pid, start)); err != nil || got.Resident == 0 {
		t.Errorf("%+v, %v, want resident memory", got, err)
	}
	if _, err := k.Usage(ProcessAt(pid, start+1)); !errors.Is(err, ErrGone) {
		t.Errorf("reused pid: %v, want ErrGone", err)
	}
}
