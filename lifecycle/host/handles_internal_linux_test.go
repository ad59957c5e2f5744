package host

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// Wait returns an error after the loss of its epoll instance.
func TestWaitFailsWithoutEpoll(t *testing.T) {
	l := &LinuxProcesses{epoll: -1, handles: map[uint64]*pidfd{}, done: make(chan struct{})}
	go l.wait()
	if err := l.Wait(t.Context()); !errors.Is(err, unix.EBADF) {
		t.Errorf("got %v, want %v", err, unix.EBADF)
	}
}

func TestProcessesWait(t *testing.T) {
	l, err := NewLinuxProcesses(nil)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(over); err != nil {
		t.Errorf("Wait after the end of ctx: %v", err)
	}
	if err := errors.Join(l.Close(), l.Wait(t.Context())); err != nil {
		t.Errorf("Wait after Close: %v", err)
	}
}
