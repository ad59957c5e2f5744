package lifecycletest

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Machine is a machine with processes to test a [host.Kernel] on.
type Machine interface {
	// Kernel returns the kernel under test.
	Kernel() host.Kernel

	// NewCgroup makes an empty cgroup and returns its path. An empty parent stands for a cgroup
	// outside all other test cgroups.
	NewCgroup(t *testing.T, parent string) string

	// Start starts a process that waits, and returns its pid.
	Start(t *testing.T, cgroup string) int

	// Kill ends a process and reaps it.
	Kill(t *testing.T, pid int)

	// EndUnreaped ends a process, which stays a zombie until Kill.
	EndUnreaped(t *testing.T, pid int)
}

// TestKernel is the conformance suite of [host.Kernel].
func TestKernel(t *testing.T, newMachine func(t *testing.T) Machine) {
	for name, test := range map[string]func(*testing.T, Machine){
		"cgroup of a process":           testCgroup,
		"processes of a cgroup":         testProcesses,
		"processes of a missing cgroup": testNoCgroup,
		"read and set a limit":          testSetMemlock,
		"locked memory":                 testLocked,
		"former process":                testReusedPID,
		"ended process":                 testExited,
		"files of a cgroup":             testReadCgroup,
		"processes of an empty cgroup":  testEmptyCgroup,
		"processes of a sibling":        testSibling,
	} {
		t.Run(name, func(t *testing.T) { test(t, newMachine(t)) })
	}
}

func testCgroup(t *testing.T, m Machine) {
	cgroup := m.NewCgroup(t, "")
	pid := m.Start(t, cgroup)
	if got, err := m.Kernel().Cgroup(pid); err != nil || got != cgroup {
		t.Errorf("Cgroup(%d) = %q, %v, want %q", pid, got, err, cgroup)
	}
}

func testProcesses(t *testing.T, m Machine) {
	top := m.NewCgroup(t, "")
	below := m.NewCgroup(t, top)
	want := []int{m.Start(t, top), m.Start(t, top), m.Start(t, below)}
	slices.Sort(want)
	procs, err := m.Kernel().Processes(top)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, p := range procs {
		got = append(got, p.PID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Processes(%s) = %v, want %v", top, got, want)
	}
	if only := onlyProcess(t, m, below); only.PID !=
		procs[slices.IndexFunc(procs, isIn(below))].PID || only.Cgroup != below {
		t.Errorf("Processes(%s) = %+v, not the process listed for the parent", below, only)
	}
}

func isIn(cgroup string) func(host.Process) bool {
	return func(p host.Process) bool { return p.Cgroup == cgroup }
}

// The test process has locked no memory.
func testLocked(t *testing.T, m Machine) {
	cgroup := m.NewCgroup(t, "")
	m.Start(t, cgroup)
	p := onlyProcess(t, m, cgroup)
	if locked, err := m.Kernel().Locked(p); locked != 0 || err != nil {
		t.Errorf("Locked = %d, %v, want 0", locked, err)
	}
	if _, err := m.Kernel().Locked(host.Process{PID: p.PID,
		StartTime: p.StartTime + uint64(host.Tick)}); !errors.Is(err, host.ErrGone) {
		t.Errorf("Locked of a former process: %v, want ErrGone", err)
	}
	m.Kill(t, p.PID)
	if _, err := m.Kernel().Locked(p); !errors.Is(err, host.ErrGone) {
		t.Errorf("Locked of an ended process: %v, want ErrGone", err)
	}
	if available, err := m.Kernel().MemAvailable(); available == 0 || err != nil {
		t.Errorf("MemAvailable = %d, %v", available, err)
	}
}

func testNoCgroup(t *testing.T, m Machine) {
	procs, err := m.Kernel().Processes(m.NewCgroup(t, "") + "/none")
	if !errors.Is(err, host.ErrGone) || len(procs) != 0 {
		t.Errorf("Processes of a missing cgroup: %v, %v, want ErrGone", procs, err)
	}
}

func testEmptyCgroup(t *testing.T, m Machine) {
	procs, err := m.Kernel().Processes(m.NewCgroup(t, ""))
	if err != nil || len(procs) != 0 {
		t.Errorf("Processes of an empty cgroup = %v, %v", procs, err)
	}
}

func testSibling(t *testing.T, m Machine) {
	parent := m.NewCgroup(t, "")
	one, other := m.NewCgroup(t, parent), m.NewCgroup(t, parent)
	pid := m.Start(t, one)
	m.Start(t, other)
	if p := onlyProcess(t, m, one); p.PID != pid {
		t.Errorf("Processes(%s) = %+v, want process %d", one, p, pid)
	}
}

func testSetMemlock(t *testing.T, m Machine) {
	cgroup := m.NewCgroup(t, "")
	m.Start(t, cgroup)
	p := onlyProcess(t, m, cgroup)
	// The value is lower than the limit of the test process, because raising takes privileges.
	want := host.Rlimit{Soft: 4096, Hard: 32768}
	if err := m.Kernel().SetMemlock(p, want); err != nil {
		t.Fatal(err)
	}
	if got, err := m.Kernel().Memlock(p); err != nil || got != want {
		t.Errorf("Memlock = %v, %v, want %v", got, err, want)
	}
}

func testReusedPID(t *testing.T, m Machine) {
	cgroup := m.NewCgroup(t, "")
	m.Start(t, cgroup)
	p := onlyProcess(t, m, cgroup)
	before, err := m.Kernel().Memlock(p)
	if err != nil {
		t.Fatal(err)
	}
	former := p
	former.StartTime -= uint64(host.Tick)
	if err := m.Kernel().SetMemlock(former, host.Rlimit{}); !errors.Is(err, host.ErrGone) {
		t.Errorf("SetMemlock of a former process: %v, want ErrGone", err)
	}
	if _, err := m.Kernel().Memlock(former); !errors.Is(err, host.ErrGone) {
		t.Errorf("Memlock of a former process: %v, want ErrGone", err)
	}
	if after, err := m.Kernel().Memlock(p); err != nil || after != before {
		t.Errorf("limit of the current process = %v, %v, want the unchanged %v", after, err, before)
	}
}

func testExited(t *testing.T, m Machine) {
	cgroup := m.NewCgroup(t, "")
	pid := m.Start(t, cgroup)
	p := onlyProcess(t, m, cgroup)
	m.Kill(t, pid)
	_, cgroupErr := m.Kernel().Cgroup(pid)
	_, readErr := m.Kernel().Memlock(p)
	setErr := m.Kernel().SetMemlock(p, host.Rlimit{})
	for call, err := range map[string]error{"Cgroup": cgroupErr, "Memlock": readErr,
		"SetMemlock": setErr} {
		if !errors.Is(err, host.ErrGone) {
			t.Errorf("%s of an ended process: %v, want ErrGone", call, err)
		}
	}
}

func testReadCgroup(t *testing.T, m Machine) {
	cgroup := m.NewCgroup(t, "")
	pid := m.Start(t, cgroup)
	content, err := m.Kernel().ReadCgroup(cgroup, "cgroup.procs")
	if err != nil || strings.TrimSpace(content) != strconv.Itoa(pid) {
		t.Errorf("cgroup.procs = %q, %v, want %d", content, err, pid)
	}
	for _, missing := range []struct{ cgroup, file string }{{cgroup, "no.such"},
		{cgroup + "/none", "cgroup.procs"}} {
		if _, err := m.Kernel().ReadCgroup(missing.cgroup, missing.file); !errors.Is(err,
			fs.ErrNotExist) {
			t.Errorf("ReadCgroup(%s, %s): %v, want fs.ErrNotExist", missing.cgroup,
				missing.file, err)
		}
	}
}

// onlyProcess returns the only process of a cgroup.
func onlyProcess(t *testing.T, m Machine, cgroup string) host.Process {
	t.Helper()
	procs, err := m.Kernel().Processes(cgroup)
	if err != nil || len(procs) != 1 {
		t.Fatalf("Processes(%s) = %v, %v, want one", cgroup, procs, err)
	}
	return procs[0]
}
