package lifecycletest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

// deadline bounds each wait.
const deadline = 30 * time.Second

// TestProcesses is the conformance suite of [supervisor.Processes].
func TestProcesses(t *testing.T, newMachine func(t *testing.T) (Machine, supervisor.Processes)) {
	for name, test := range map[string]func(*testing.T, Machine, supervisor.Processes){
		"end of a process":              testHandleEnd,
		"SIGTERM":                       testTerminate,
		"SIGKILL":                       testKill,
		"handle of a former process":    testHandleOfFormerProcess,
		"handle of an ended process":    testHandleOfEndedProcess,
		"zombie":                        testZombie,
		"no call after Close":           testNoCallAfterClose,
		"identity":                      testIdentify,
		"arguments":                     testArguments,
		"existing cgroup":               testExists,
		"kill a cgroup":                 testKillCgroup,
		"kill a missing cgroup":         testKillMissingCgroup,
		"two handles of a process":      testTwoHandles,
		"signal after the end":          testSignalAfterEnd,
		"identity of an ended process":  testIdentifyEndedProcess,
		"arguments of a former process": testArgumentsOfFormerProcess,
		"Close twice":                   testCloseTwice,
		"one call at the end":           testEndedOnce,
		"members of a cgroup":           testMembers,
	} {
		t.Run(name, func(t *testing.T) {
			m, p := newMachine(t)
			test(t, m, p)
		})
	}
}

// openedProcess is a process with an open handle. ended gets a value for each call of the handle's
// callback.
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
		t.Fatal("no call at the end of the process")
	}
}

func testHandleEnd(t *testing.T, m Machine, p supervisor.Processes) {
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
		t.Error("ended was called twice")
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

func testTwoHandles(t *testing.T, m Machine, p supervisor.Processes) {
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

func testHandleOfFormerProcess(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	former := h.Process
	former.StartTime -= uint64(host.Tick)
	if _, err := p.OpenHandle(former, func() {}); !errors.Is(err, host.ErrGone) {
		t.Errorf("OpenHandle of a former process: %v, want ErrGone", err)
	}
}

func testHandleOfEndedProcess(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	m.Kill(t, h.pid)
	if _, err := p.OpenHandle(h.Process, func() {}); !errors.Is(err, host.ErrGone) {
		t.Errorf("OpenHandle of an ended process: %v, want ErrGone", err)
	}
}

func testZombie(t *testing.T, m Machine, p supervisor.Processes) {
	cgroup := m.NewCgroup(t, "")
	pid := m.Start(t, cgroup)
	process, err := p.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{}, 1)
	h, err := p.OpenHandle(process, func() { ended <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	m.EndUnreaped(t, pid)
	openedProcess{ended: ended}.awaitEnd(t)
	if _, err := p.OpenHandle(process, func() {}); !errors.Is(err, host.ErrGone) {
		t.Errorf("OpenHandle of a zombie: %v, want ErrGone", err)
	}
	if now, err := p.Identify(pid); err != nil || !now.Same(process) {
		t.Errorf("Identify of a zombie = %+v, %v, want %+v", now, err, process)
	}
	if args, err := p.Arguments(process); err != nil || strings.Join(args, "") != "" {
		t.Errorf("Arguments of a zombie = %q, %v, want none", args, err)
	}
	if all, err := p.Members(cgroup); err != nil || len(all) != 0 {
		t.Errorf("Members of a zombie's cgroup = %+v, %v, want none", all, err)
	}
	if err := errors.Join(h.Terminate(), h.Kill(), h.Close()); err != nil {
		t.Errorf("signals to a zombie: %v", err)
	}
}

func testSignalAfterEnd(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	m.Kill(t, h.pid)
	for name, send := range map[string]func() error{"Terminate": h.Terminate,
		"Kill": h.Handle.Kill} {
		if err := send(); !errors.Is(err, host.ErrGone) {
			t.Errorf("%s of a reaped process: %v, want ErrGone", name, err)
		}
	}
}

func testNoCallAfterClose(t *testing.T, m Machine, p supervisor.Processes) {
	h, other := startAndOpen(t, m, p), startAndOpen(t, m, p)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	m.Kill(t, h.pid)
	m.Kill(t, other.pid) // its callback runs after that of h
	other.awaitEnd(t)
	if len(h.ended) != 0 {
		t.Error("ended was called after Close")
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

func testIdentifyEndedProcess(t *testing.T, m Machine, p supervisor.Processes) {
	pid := m.Start(t, m.NewCgroup(t, ""))
	m.Kill(t, pid)
	if got, err := p.Identify(pid); !errors.Is(err, host.ErrGone) {
		t.Errorf("Identify of an ended process = %+v, %v, want ErrGone", got, err)
	}
}

func testArguments(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	if got, err := p.Arguments(h.Process); err != nil || len(got) != 1 || got[0] != "cat" {
		t.Errorf("Arguments = %q, %v, want cat alone", got, err)
	}
}

func testArgumentsOfFormerProcess(t *testing.T, m Machine, p supervisor.Processes) {
	h := startAndOpen(t, m, p)
	former := h.Process
	former.StartTime -= uint64(host.Tick)
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
		t.Errorf("Members of a missing cgroup = %+v, %v", got, err)
	}
}

func testExists(t *testing.T, m Machine, p supervisor.Processes) {
	cgroup := m.NewCgroup(t, "")
	if exists, err := p.Exists(cgroup); err != nil || !exists {
		t.Errorf("Exists(%s) = %t, %v", cgroup, exists, err)
	}
	if exists, err := p.Exists(cgroup + "/none"); err != nil || exists {
		t.Errorf("Exists of a missing cgroup = %t, %v", exists, err)
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
		t.Errorf("remaining processes %v, %v, want none", procs, err)
	}
	if only := onlyProcess(t, m, beside); only.PID != stays {
		t.Errorf("the sibling cgroup has %+v, want its own process", only)
	}
}

func testKillMissingCgroup(t *testing.T, m Machine, p supervisor.Processes) {
	if err := p.KillCgroup(m.NewCgroup(t, "") + "/none"); !errors.Is(err, host.ErrGone) {
		t.Errorf("KillCgroup of a missing cgroup: %v, want ErrGone", err)
	}
}
