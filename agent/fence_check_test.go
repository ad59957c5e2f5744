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

// fenceRig is a fence with a clock of the test. It counts attempts to act, and lets them fail with
// fault.
type fenceRig struct {
	*fence
	clock    *setClock
	log      *syncBuffer
	attempts int
	fault    error
	presence *presence // of an agent with a proven supervisor
}

func newFenceRig(t *testing.T) *fenceRig {
	t.Helper()
	root := t.TempDir()
	r := &fenceRig{clock: &setClock{now: 1}, log: &syncBuffer{}, fault: errors.New("no pins")}
	p := &policy.Policy{Lifecycle: policy.Lifecycle{FenceAfter: time.Minute}}
	r.fence = newFence(Config{Root: root}, p, textLogger(r.log), r.clock)
	r.act = func(context.Context) error { r.attempts++; return r.fault }
	r.presence = newPresence(root, r.clock, discard)
	r.presence.workingSince = 1
	r.clock.now = r.clock.now.Add(provenAfter)
	return r
}

// advance makes the fence check once a second for the given number of seconds.
func (r *fenceRig) advance(t *testing.T, seconds int) {
	t.Helper()
	for range seconds {
		r.clock.now = r.clock.now.Add(time.Second)
		r.check(t.Context())
	}
}

func TestFenceRetries(t *testing.T) {
	r := newFenceRig(t)
	r.presence.confirm()
	r.advance(t, 61)
	if r.attempts != 0 {
		t.Errorf("%d attempts before the agent is away for more than a minute", r.attempts)
	}
	r.advance(t, 600)
	// after 1, 2, 4, 8, 16, 32 seconds, and then each minute
	if r.attempts < 10 || r.attempts > 18 {
		t.Errorf("%d attempts in ten minutes", r.attempts)
	}
	checkLines(t, r.log, 1, "the fence takes over", "no pins")
	r.fault = errors.New("another fault")
	r.advance(t, 60)
	checkLines(t, r.log, 1, "the fence takes over", "no pins", "another fault")
	r.presence.confirm()
	r.advance(t, 61) // the first check notices the touch
	before := r.attempts
	r.advance(t, 4)
	if r.attempts != before+3 {
		t.Errorf("%d attempts in a new absence, want 3", r.attempts-before)
	}
	checkLines(t, r.log, 2, "the fence takes over", "another fault")
}

func checkLines(t *testing.T, log *syncBuffer, want int, messages ...string) {
	t.Helper()
	for _, message := range messages {
		if got := strings.Count(log.String(), message); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", message, got, want, log)
		}
	}
}

func TestFenceWithoutAnEarlierAgent(t *testing.T) {
	r := newFenceRig(t)
	r.advance(t, 600)
	if r.attempts != 0 {
		t.Errorf("%d attempts where no agent has run", r.attempts)
	}
	checkLines(t, r.log, 1, "the fence has nothing to do")
	ties := filepath.Join(r.config.Root, "ties")
	if err := errors.Join(os.Mkdir(ties, 0o700),
		os.WriteFile(filepath.Join(ties, "one.json"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	r.advance(t, 1)
	if r.attempts != 1 {
		t.Errorf("%d attempts with a stored tie, want 1", r.attempts)
	}
}

func TestFenceSwitchedOff(t *testing.T) {
	r := newFenceRig(t)
	r.policy.Lifecycle.FenceAfter = 0
	r.presence.confirm()
	r.advance(t, 600)
	if r.attempts != 0 {
		t.Errorf("%d attempts with fenceAfter: 0", r.attempts)
	}
}

// An agent without pins supervises no VM processes: it counts as away.
func TestAgentWithoutPins(t *testing.T) {
	config := testConfig(t)
	config.BPFDir = mountBPF(t)
	if err := unix.Mount("", filepath.Dir(config.BPFDir), "",
		unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	startRuntime(t, config.NRISocket)
	a := start(t, config)
	a.waitReady(t)
	if tracker := a.Node().Tracker; tracker.Available ||
		!strings.Contains(tracker.Error, "read-only file system") {
		t.Errorf("tracker %+v, want an error for the read-only file system", tracker)
	}
	for _, name := range []string{aliveFile, agentLockFile} {
		if _, err := os.Stat(filepath.Join(config.Root, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want no file", name, err)
		}
	}
}
