package lifecycletest

import (
	"errors"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// deadline is for what happens at once.
const deadline = 30 * time.Second

// TestProcesses is the conformance suite of [supervisor.Processes].
func TestProcesses(t *testing.T, newMachine func(t *testing.T) (Machine, supervisor.Processes)) {
	for name, test := range map[string]func(*testing.T, Machine, supervisor.Processes){
		"end of a held process":     testHoldEnd,
		"SIGTERM":                   testTerminate,
		"SIGKILL":                   testKill,
		"another has the pid":       testHoldAnother,
		"a process that has ended":  testHoldGone,
		"closed before the end":     testHoldClose,
		"identity":                  testIdentify,
		"arguments":                 testArguments,
		"existence of a cgroup":     testExists,
		"a cgroup and those below":  testKillCgroup,
		"a cgroup that is gone":     testKillNoCgroup,
		"several handles for one":   testHoldTwice,
		"signals after the end":     testSignalAfterEnd,
		"identity of nobody":        testIdentifyNobody,
		"arguments of another's":    testArgumentsOfAnother,
		"handles close only once":   testCloseTwice,
		"ended is not called twice": testEndedOnce,
		"members of a cgroup":       testMembers,
	} {
		t.Run(name, func(t *testing.T) {
			m, p := newMachine(t)
			test(t, m, p)
		})
	}
}

// openedProcess is a process with what became of it.
type openedProcess struct {
	host.Process
	host.Handle
	pid   int
	ended chan struct{}
}

func startAndOpen(t *testing.T, m Machine, p supervisor.Processes) openedProcess {
	t.Helper()
	h := openedProcess{pid: m.Start(t, m.NewCgroup(t, "")), ended: make(chan struct{}, 10)}
	var err error
	if h.Process, err = p.Identify(h.pid); err != nil {
		t.Fatal(err)
	}
	if h.Handle, err = p.OpenHandle(h.Process, func() { h.ended <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h openedProcess) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-h.ended:
	case <-time.After(deadline):
		t.Fatal("nobody tells of the process's end")
	}
}

func testHoldEnd(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	m.Kill(t, h.pid)
	h.awaitEnd(t)
}

func testEndedOnce(t *testing.T, m Machine, p supervisor.Processes) {
	h, other := startAndOpen(t, m, p), startAndOpen(t, m, p)
	m.Kill(t, h.pid)
	h.awaitEnd(t)
	m.Kill(t, other.pid)
	other.awaitEnd(t)
	if len(h.ended) != 0 {
		t.Error("the end was told again")
	}
}

func testTerminate(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	if err := h.Terminate(); err != nil {
		t.Fatal(err)
	}
	h.awaitEnd(t)
}

func testKill(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	if err := h.Handle.Kill(); err != nil {
		t.Fatal(err)
	}
	h.awaitEnd(t)
}

func testHoldTwice(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	again := make(chan struct{}, 1)
	second, err := p.OpenHandle(h.Process, func() { again <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Terminate(); err != nil {
		t.Fatal(err)
	}
	h.awaitEnd(t)
	openedProcess{ended: again}.awaitEnd(t)
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func testHoldAnother(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	former := h.Process
	former.StartTime--
	if _, err := p.OpenHandle(former, func() {}); !errors.Is(err, host.ErrGone) {
		t.Errorf("Hold of a former process: %v, want ErrGone", err)
	}
}

func testHoldGone(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	m.Kill(t, h.pid)
	if _, err := p.OpenHandle(h.Process, func() {}); !errors.Is(err, host.ErrGone) {
		t.Errorf("Hold of a process that has ended: %v, want ErrGone", err)
	}
}

func testSignalAfterEnd(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	m.Kill(t, h.pid)
	for name, send := range map[string]func() error{"Terminate": h.Terminate, "Kill": h.Handle.Kill} {
		if err := send(); !errors.Is(err, host.ErrGone) {
			t.Errorf("%s of a process that was reaped: %v, want ErrGone", name, err)
		}
	}
}

func testHoldClose(t *testing.T, m Machine, p supervisor.Processes) {
	h, other := startAndOpen(t, m, p), startAndOpen(t, m, p)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	m.Kill(t, h.pid)
	m.Kill(t, other.pid) // told after what would have been told of the first
	other.awaitEnd(t)
	if len(h.ended) != 0 {
		t.Error("the end was told after Close")
	}
}

func testCloseTwice(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

func testIdentify(t *testing.T, m Machine, p supervisor.Processes) {
	cgroup := m.NewCgroup(t, "")
	pid := m.Start(t, cgroup)
	got, err := p.Identify(pid)
	if want := onlyProcess(t, m, cgroup); err != nil || got != want {
		t.Errorf("Identify(%d) = %+v, %v, want %+v", pid, got, err, want)
	}
}

func testIdentifyNobody(t *testing.T, m Machine, p supervisor.Processes) {
	pid := m.Start(t, m.NewCgroup(t, ""))
	m.Kill(t, pid)
	if got, err := p.Identify(pid); !errors.Is(err, host.ErrGone) {
		t.Errorf("Identify of nobody = %+v, %v, want ErrGone", got, err)
	}
}

func testArguments(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	if got, err := p.Arguments(h.Process); err != nil || len(got) != 1 || got[0] != "cat" {
		t.Errorf("Arguments = %q, %v, want cat alone", got, err)
	}
}

func testArgumentsOfAnother(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	former := h.Process
	former.StartTime--
	if got, err := p.Arguments(former); !errors.Is(err, host.ErrGone) {
		t.Errorf("Arguments of a former process = %q, %v, want ErrGone", got, err)
	}
}

func testMembers(t *testing.T, m Machine, p supervisor.Processes) {
	cgroup := m.NewCgroup(t, "")
	want := m.Start(t, m.NewCgroup(t, cgroup))
	if got, err := p.Members(cgroup); err != nil || len(got) != 1 || got[0].PID != want {
		t.Errorf("Members(%s) = %+v, %v, want process %d", cgroup, got, err, want)
	}
	if got, err := p.Members(cgroup + "/none"); err != nil || len(got) != 0 {
		t.Errorf("Members of a cgroup that is none = %+v, %v", got, err)
	}
}

func testExists(t *testing.T, m Machine, p supervisor.Processes) {
	cgroup := m.NewCgroup(t, "")
	if there, err := p.Exists(cgroup); err != nil || !there {
		t.Errorf("Exists(%s) = %t, %v", cgroup, there, err)
	}
	if there, err := p.Exists(cgroup + "/none"); err != nil || there {
		t.Errorf("Exists of a cgroup that is none = %t, %v", there, err)
	}
}

func testKillCgroup(t *testing.T, m Machine, p supervisor.Processes) {
	parent := m.NewCgroup(t, "")
	top := m.NewCgroup(t, parent)
	below, beside := m.NewCgroup(t, top), m.NewCgroup(t, parent)
	pids := []int{m.Start(t, top), m.Start(t, below)}
	stays := m.Start(t, beside)
	if err := p.KillCgroup(top); err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		m.Kill(t, pid) // reaps
	}
	if procs, err := m.Kernel().Processes(top); err != nil || len(procs) != 0 {
		t.Errorf("processes %v are left, %v", procs, err)
	}
	if only := onlyProcess(t, m, beside); only.PID != stays {
		t.Errorf("the cgroup beside has %+v", only)
	}
}

func testKillNoCgroup(t *testing.T, m Machine, p supervisor.Processes) {
	if err := p.KillCgroup(m.NewCgroup(t, "") + "/none"); !errors.Is(err, host.ErrGone) {
		t.Errorf("KillCgroup of none: %v, want ErrGone", err)
	}
}
