package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// sleeper starts a process that waits for the end of its input.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	return cmd.Process.Pid
}

func limitOf(t *testing.T, pid int) Rlimit {
	t.Helper()
	l, err := prlimit(pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// lower is a limit that every user may set.
func lower(l Rlimit) Rlimit { return Rlimit{Soft: min(l.Soft, 1<<16) / 2, Hard: l.Hard} }

func TestSetMemlockRestoresLimitOfReusedPID(t *testing.T) {
	reused := sleeper(t)
	before := limitOf(t, reused)
	var during Rlimit
	isReused := func() error {
		during = limitOf(t, reused)
		return ErrGone
	}
	if err := setMemlock(reused, lower(before), isReused); !errors.Is(err, ErrGone) {
		t.Errorf("setMemlock = %v, want %v", err, ErrGone)
	}
	if during != lower(before) {
		t.Errorf("limit %+v during the identity check, want the new limit", during)
	}
	if got := limitOf(t, reused); got != before {
		t.Errorf("limit of the other process = %+v, want its own %+v", got, before)
	}
}

// The process got the limit and then ended. A later process with its pid keeps its own limit.
func TestSetMemlockKeepsLimitOfLaterProcess(t *testing.T) {
	pid := sleeper(t)
	own := lower(lower(limitOf(t, pid)))
	replaced := func() error {
		if _, err := prlimit(pid, &own); err != nil {
			t.Error(err)
		}
		return ErrGone
	}
	if err := setMemlock(pid, lower(limitOf(t, pid)), replaced); !errors.Is(err, ErrGone) {
		t.Errorf("setMemlock = %v, want %v", err, ErrGone)
	}
	if got := limitOf(t, pid); got != own {
		t.Errorf("limit %+v, want that of the later process, %+v", got, own)
	}
}

func TestRestoreMemlockOfEndedProcess(t *testing.T) {
	if err := restoreLimit(1<<30, Rlimit{}, Rlimit{Soft: 1, Hard: 1}); err != nil {
		t.Errorf("restoring the limit of an ended process: %v", err)
	}
}

// hidden returns a kernel whose procfs has no process, like hidepid=invisible for a user without
// rights.
func hidden(t *testing.T) *LinuxKernel {
	t.Helper()
	return &LinuxKernel{proc: t.TempDir(), cgroup: t.TempDir(), nsRoot: "/"}
}

// requests returns the errors of all calls about a process.
func requests(t *testing.T, k *LinuxKernel, p Process) map[string]error {
	t.Helper()
	processes := &LinuxProcesses{kernel: k}
	_, cgroup := k.Cgroup(p.PID)
	_, memlock := k.Memlock(p)
	_, identify := processes.Identify(p.PID)
	_, arguments := processes.Arguments(p)
	_, handle := processes.OpenHandle(p, func() {})
	return map[string]error{
		"Cgroup": cgroup, "Memlock": memlock, "Identify": identify, "Arguments": arguments,
		"OpenHandle": handle,
		"SetMemlock": k.SetMemlock(p, Rlimit{}),
	}
}

func TestHiddenProcessIsNotGone(t *testing.T) {
	for name, err := range requests(t, hidden(t), Process{PID: sleeper(t), StartTime: 1}) {
		if errors.Is(err, ErrGone) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a live hidden process: %v", name, err)
		}
	}
}

func TestReapedProcessIsGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for name, err := range requests(t, hidden(t), Process{PID: cmd.Process.Pid, StartTime: 1}) {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s of an ended process: %v", name, err)
		}
	}
}

// The pid of an ended process now belongs to a thread.
func TestThreadIsNotTheProcess(t *testing.T) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(threads, func(e os.DirEntry) bool {
		return e.Name() != strconv.Itoa(os.Getpid())
	})
	if at < 0 {
		t.Fatal("the test has one thread, so it proves nothing")
	}
	pid, err := strconv.Atoi(threads[at].Name())
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range requests(t, hidden(t), Process{PID: pid, StartTime: 1}) {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s of a thread's number: %v", name, err)
		}
	}
}

// A container with hidden processes is not empty.
func TestProcessesFailsForHiddenProcesses(t *testing.T) {
	k := hidden(t)
	listed := []byte("1\n")
	if err := os.WriteFile(k.cgroup+"/cgroup.procs", listed, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := k.Processes("/"); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("Processes = %v, %v, want an error other than ErrGone", got, err)
	}
}
