package lifecycle

import (
	"errors"
	"os/exec"
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

// lower is a limit that anybody may set.
func lower(l Rlimit) Rlimit { return Rlimit{Soft: min(l.Soft, 1<<16) / 2, Hard: l.Hard} }

func TestSetMemlockGivesAStrangerItsLimitBack(t *testing.T) {
	stranger := sleeper(t)
	before := limitOf(t, stranger)
	var during Rlimit
	reused := func() error {
		during = limitOf(t, stranger)
		return ErrGone
	}
	if err := setMemlock(stranger, lower(before), reused); !errors.Is(err, ErrGone) {
		t.Errorf("setMemlock = %v, want %v", err, ErrGone)
	}
	if during != lower(before) {
		t.Errorf("limit %+v when it was asked whose it is, want it set", during)
	}
	if got := limitOf(t, stranger); got != before {
		t.Errorf("the stranger has %+v, want its own %+v", got, before)
	}
}

// The process that was meant had got the limit, and ended after that: whoever has
// its pid now was not touched, and must not be.
func TestSetMemlockLeavesWhoCameLaterAlone(t *testing.T) {
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

func TestSetMemlockOfNobody(t *testing.T) {
	if err := giveBack(1<<30, Rlimit{}, Rlimit{Soft: 1, Hard: 1}); err != nil {
		t.Errorf("giving back to a process that is gone: %v", err)
	}
}
