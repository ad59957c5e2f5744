package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeNode replaces a node.
type fakeNode struct {
	dir  string
	died chan struct{}
	kept int
}

func newFakeNode(t *testing.T) *fakeNode {
	t.Helper()
	return &fakeNode{dir: t.TempDir(), died: make(chan struct{})}
}

func (s *fakeNode) Dir() string             { return s.dir }
func (*fakeNode) QEMU() int                 { return 0 }
func (s *fakeNode) Exited() <-chan struct{} { return s.died }
func (*fakeNode) Done() <-chan struct{}     { return nil }

func (s *fakeNode) KeepArtefacts(context.Context, string) (string, error) {
	s.kept++
	return s.dir, nil
}

// stubborn is a command with two children. It ends with the first signal. Its children ignore
// signals, and one of them has left the process group.
const stubborn = `trap "exit 7" INT TERM
(trap "" INT TERM; exec sleep 612) &
(trap "" INT TERM; exec setsid sleep 612) &
touch "$MOORING_NODE/up"
while :; do sleep 1; done`

// whenUp calls then when the command has started.
func whenUp(t *testing.T, n *fakeNode, then func()) {
	t.Helper()
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(filepath.Join(n.dir, "up")); err == nil {
				then()
				return
			}
		}
	}()
}

func TestInterruptEndsAllProcesses(t *testing.T) {
	for signal, wantKept := range map[syscall.Signal]int{syscall.SIGINT: 0, syscall.SIGTERM: 1} {
		n := newFakeNode(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		whenUp(t, n, func() { cancel(interrupted{signal}) })
		err := runBeside(ctx, n, 200*time.Millisecond, []string{"bash", "-c", stubborn})
		if got := exitCode(err); got != 128+int(signal) {
			t.Errorf("%v: exit code %d from %v, want %d", signal, got, err, 128+int(signal))
		}
		if left := descendants(0); len(left) > 0 {
			t.Errorf("%v: still running: %v", signal, left)
		}
		if n.kept != wantKept {
			t.Errorf("%v: logs kept %d times, want %d", signal, n.kept, wantKept)
		}
	}
}

func TestInterruptedCommandCanCleanUp(t *testing.T) {
	n := newFakeNode(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	whenUp(t, n, func() { cancel(interrupted{syscall.SIGINT}) })
	const slow = `trap 'sleep 0.3; touch "$MOORING_NODE/tidy"; exit' INT
touch "$MOORING_NODE/up"; while :; do sleep 0.1; done`
	_ = runBeside(ctx, n, time.Minute, []string{"bash", "-c", slow})
	if _, err := os.Stat(filepath.Join(n.dir, "tidy")); err != nil {
		t.Error("the command could not finish")
	}
}

func TestDeadNodeEndsTheCommand(t *testing.T) {
	n := newFakeNode(t)
	whenUp(t, n, func() { close(n.died) })
	err := runBeside(t.Context(), n, 200*time.Millisecond, []string{"bash", "-c", stubborn})
	if !errors.Is(err, errNodeGone) || exitCode(err) != 125 {
		t.Errorf("got %v, want %v and exit code 125", err, errNodeGone)
	}
	if left := descendants(0); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

func TestExitCodeOfTheCommand(t *testing.T) {
	for command, want := range map[string]struct{ code, kept int }{
		"true":                   {0, 0},
		"exit 3":                 {3, 1},
		"kill -9 $$":             {137, 1},
		"sleep 612 & disown -ah": {0, 0},
	} {
		n := newFakeNode(t)
		err := runBeside(t.Context(), n, time.Minute, []string{"bash", "-c", command})
		code := 0
		if err != nil {
			code = exitCode(err)
		}
		if code != want.code || n.kept != want.kept {
			t.Errorf("%s: exit code %d, logs kept %d times; want %+v", command, code, n.kept, want)
		}
		if left := descendants(0); len(left) > 0 {
			t.Errorf("%s: still running: %v", command, left)
		}
	}
	err := runBeside(t.Context(), newFakeNode(t), time.Minute, []string{"/nonexistent"})
	if exitCode(err) != 125 || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("got %v", err)
	}
}

// The failed command belongs to the node's build, so its exit code is not the run's.
func TestExitCodeOfAFailedBuild(t *testing.T) {
	err := exec.CommandContext(t.Context(), "sh", "-c", "exit 3").Run()
	if got := exitCode(fmt.Errorf("building: %w", err)); got != 125 {
		t.Errorf("exit code %d, want 125", got)
	}
	if got := exitCode(errors.Join(err, interrupted{syscall.SIGTERM})); got != 143 {
		t.Errorf("exit code %d after SIGTERM, want 143", got)
	}
}
