package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

type setClock struct{ now host.Boottime }

func (c *setClock) Now() host.Boottime { return c.now }

// The change of the modification time counts, not its value.
func TestAbsence(t *testing.T) {
	root, clock := t.TempDir(), &setClock{now: 100}
	a := newAbsence(root, clock)
	wantAway := func(when string, want time.Duration) {
		t.Helper()
		if away, starting := a.observe(); away != want || starting {
			t.Errorf("%s: away for %v, starting: %t, want %v", when, away, starting, want)
		}
	}
	clock.now += 5
	wantAway("without a file", 5)
	alive := filepath.Join(root, aliveFile)
	if err := touchFile(alive); err != nil {
		t.Fatal(err)
	}
	wantAway("after a touch", 0)
	clock.now += 7
	wantAway("later", 7)
	long := time.Unix(1000, 0) // an operator has set the node's clock
	if err := os.Chtimes(alive, long, long); err != nil {
		t.Fatal(err)
	}
	wantAway("after a touch by another clock", 0)
}

// Only a supervisor that has worked for provenAfter touches the file.
func TestPresenceOnceProven(t *testing.T) {
	clock := &setClock{now: 1}
	p := newPresence(t.TempDir(), clock, discard)
	for range int(provenAfter / time.Second) {
		p.confirm()
		if _, err := os.Stat(filepath.Join(p.root, aliveFile)); err == nil {
			t.Fatal("the file exists before the supervisor has proven itself")
		}
		clock.now = clock.now.Add(time.Second)
	}
	p.confirm()
	if _, err := os.Stat(filepath.Join(p.root, aliveFile)); err != nil {
		t.Errorf("no file: %v", err)
	}
}

// startAgent starts an agent. The returned function ends it.
func (r *fenceRig) startAgent(t *testing.T) (end func()) {
	t.Helper()
	p := newPresence(r.config.Root, r.clock, discard)
	p.announce(t.Context())
	return func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}

// The agent starts every ten seconds and lives for three seconds.
func TestFenceInCrashLoop(t *testing.T) {
	r := newFenceRig(t)
	r.presence.confirm()
	r.fault = nil
	for range 120 { // 20 minutes
		before, end := r.attempts, r.startAgent(t)
		r.advance(t, 3)
		if r.attempts != before {
			t.Fatal("the fence acts beside an agent that starts")
		}
		end()
		r.advance(t, 7)
	}
	if r.attempts < 7*110 {
		t.Errorf("%d attempts in 20 minutes without a working agent, want one in each second "+
			"between",
			r.attempts)
	}
	defer r.startAgent(t)() // this one lives
	before := r.attempts
	for range 60 {
		r.presence.confirm()
		r.advance(t, 1)
	}
	if r.attempts != before {
		t.Errorf("%d attempts beside an agent that works", r.attempts-before)
	}
}

// An agent that starts and never works counts as away.
func TestFenceBesideHangingAgent(t *testing.T) {
	r := newFenceRig(t)
	r.presence.confirm()
	r.advance(t, 55)
	defer r.startAgent(t)()
	r.advance(t, int(startGrace/time.Second))
	if r.attempts != 0 {
		t.Errorf("%d attempts while the agent starts", r.attempts)
	}
	r.advance(t, 2)
	if r.attempts == 0 {
		t.Error("no attempt although the agent hangs")
	}
}

func TestAgentAwaitsFence(t *testing.T) {
	root, log := t.TempDir(), &syncBuffer{}
	p := newPresence(root, host.LinuxClock{}, textLogger(log))
	fence, err := holdLock(filepath.Join(root, fenceLockFile))
	if err != nil {
		t.Fatal(err)
	}
	announced := make(chan struct{})
	go func() { defer close(announced); p.announce(t.Context()) }()
	a := newAbsence(root, host.LinuxClock{})
	eventually(t, "the agent's start", func() bool { _, starting := a.observe(); return starting })
	select {
	case <-announced:
		t.Error("the agent has not waited for the fence")
	default:
	}
	if err := fence.Close(); err != nil {
		t.Fatal(err)
	}
	receive(t, announced, "the end of the wait")
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if _, starting := a.observe(); starting || log.String() != "" {
		t.Errorf("after the agent's end: starting: %t, log: %s", starting, log)
	}
}

func TestLockHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	wantHeld := func(want bool) {
		t.Helper()
		if held, err := lockHeld(path); held != want || err != nil {
			t.Errorf("held: %t, %v, want %t", held, err, want)
		}
	}
	wantHeld(false)
	var held []*os.File
	for range 2 {
		f, err := holdLock(path)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, f)
	}
	for _, f := range held {
		wantHeld(true)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantHeld(false)
	if err := errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)); err != nil {
		t.Fatal(err)
	}
	if _, err := holdLock(path); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link: %v", err)
	}
}

// An acting fence continues beside agents that fail to start.
func TestFenceBesideFailingAgents(t *testing.T) {
	config := testConfig(t)
	config.BPFDir = mountBPF(t)
	a, runtime := startTracking(t, config)
	launch(t, config, runtime, "lives") // gives the fence a launcher to take over
	log := startFence(t, config)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	runtime.Stop()
	eventually(t, "the fence to act", func() bool {
		held, _ := lockHeld(filepath.Join(config.Root, fenceLockFile))
		return held && strings.Contains(log.String(), "launcher taken over")
	})
	broken := config
	broken.Listen = "no such address"
	for range 3 {
		if _, err := New(t.Context(), broken, testBuild, discard); err == nil {
			t.Fatal("an agent has started that cannot listen")
		}
	}
	<-time.After(2 * checkPeriod) // time for the fence to react
	if strings.Contains(log.String(), "the fence steps aside") {
		t.Error("the fence has stepped aside for agents that do not start")
	}
	next := start(t, config)
	eventually(t, "the agent's supervision",
		func() bool { return strings.Contains(next.log.String(), "launcher taken over") })
	if !strings.Contains(log.String(), "the fence steps aside") {
		t.Error("agent and fence supervise at the same time")
	}
}
