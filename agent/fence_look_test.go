package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/policy"
)

// lookout is a fence whose clock the test sets, and that cannot act.
type lookout struct {
	*fence
	clock *setClock
	log   *syncBuffer
	tries int
	fault error
	sign  *alive // of an agent whose supervisor works
}

func newLookout(t *testing.T) *lookout {
	t.Helper()
	root := t.TempDir()
	l := &lookout{clock: &setClock{now: 1}, log: &syncBuffer{}, fault: errors.New("no pins")}
	p := &policy.Policy{Lifecycle: policy.Lifecycle{FenceAfter: time.Minute}}
	l.fence = newFence(Config{Root: root}, p, textLogger(l.log), l.clock)
	l.act = func(context.Context) error { l.tries++; return l.fault }
	l.sign = newAlive(root, l.clock, discard)
	l.sign.since = 1 // it has begun long ago
	l.clock.now = l.clock.now.Add(provenAfter)
	return l
}

// pass looks once a second, for that many seconds.
func (l *lookout) pass(t *testing.T, seconds int) {
	t.Helper()
	for range seconds {
		l.clock.now = l.clock.now.Add(time.Second)
		l.look(t.Context())
	}
}

func TestFenceHasPatience(t *testing.T) {
	l := newLookout(t)
	l.sign.worked()
	l.pass(t, 61)
	if l.tries != 0 {
		t.Errorf("%d attempts before the agent is away for more than a minute", l.tries)
	}
	l.pass(t, 600)
	if l.tries < 10 || l.tries > 18 { // after 1, 2, 4, 8, 16, 32 seconds, and then each minute
		t.Errorf("%d attempts in ten minutes", l.tries)
	}
	checkLines(t, l.log, 1, "the fence takes over", "no pins")
	l.fault = errors.New("another fault")
	l.pass(t, 60)
	checkLines(t, l.log, 1, "the fence takes over", "no pins", "another fault")
	l.sign.worked()
	l.pass(t, 61) // the first of them sees the sign
	before := l.tries
	l.pass(t, 4)
	if l.tries != before+3 {
		t.Errorf("%d attempts after the agent was there, want a new beginning: 3", l.tries-before)
	}
	checkLines(t, l.log, 2, "the fence takes over", "another fault")
}

func checkLines(t *testing.T, log *syncBuffer, want int, messages ...string) {
	t.Helper()
	for _, message := range messages {
		if got := strings.Count(log.String(), message); got != want {
			t.Errorf("%q is told %d times, want %d:\n%s", message, got, want, log)
		}
	}
}

// No agent was ever there: nobody has left anything.
func TestFenceHasNothingToDo(t *testing.T) {
	l := newLookout(t)
	l.pass(t, 600)
	if l.tries != 0 {
		t.Errorf("%d attempts where no agent has run", l.tries)
	}
	checkLines(t, l.log, 1, "there is nothing to do")
	ties := filepath.Join(l.config.Root, "ties")
	if err := errors.Join(os.Mkdir(ties, 0o700), os.WriteFile(filepath.Join(ties, "one.json"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	l.pass(t, 1)
	if l.tries != 1 {
		t.Errorf("%d attempts where a tie is stored, want 1", l.tries)
	}
}

func TestFenceNever(t *testing.T) {
	l := newLookout(t)
	l.policy.Lifecycle.FenceAfter = 0
	l.sign.worked()
	l.pass(t, 600)
	if l.tries != 0 {
		t.Errorf("%d attempts of a fence that never acts", l.tries)
	}
}

// TestAgentWithoutPins: the node does not let the agent have its pins. It works on
// without them, and gives no sign of life: it looks after no VM processes.
func TestAgentWithoutPins(t *testing.T) {
	config := testConfig(t)
	config.BPFDir = mountBPF(t)
	if err := unix.Mount("", filepath.Dir(config.BPFDir), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	startRuntime(t, config.NRISocket)
	a := start(t, config)
	a.waitReady(t)
	if tracker := a.Node().Tracker; tracker.Available || !strings.Contains(tracker.Error, "read-only file system") {
		t.Errorf("tracker %+v, want one that is not available, and why", tracker)
	}
	for _, sign := range []string{aliveFile, startFile} {
		if _, err := os.Stat(filepath.Join(config.Root, sign)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want no sign of life", sign, err)
		}
	}
}
