package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle"
)

type setClock struct{ now lifecycle.Boottime }

func (c *setClock) Now() lifecycle.Boottime { return c.now }

// TestAbsence: it is the change of the file that counts, not its time.
func TestAbsence(t *testing.T) {
	root, clock := t.TempDir(), &setClock{now: 100}
	a := newAbsence(root, clock)
	wantAway := func(what string, want time.Duration) {
		t.Helper()
		if away, coming := a.look(); away != want || coming {
			t.Errorf("%s: away for %v, coming: %t, want %v", what, away, coming, want)
		}
	}
	clock.now += 5
	wantAway("without a sign of life", 5)
	sign := filepath.Join(root, aliveFile)
	if err := touchFile(sign); err != nil {
		t.Fatal(err)
	}
	wantAway("after a sign of life", 0)
	clock.now += 7
	wantAway("later", 7)
	long := time.Unix(1000, 0) // the node's clock was set
	if err := os.Chtimes(sign, long, long); err != nil {
		t.Fatal(err)
	}
	wantAway("a sign of life by another clock", 0)
}

// Only a supervisor that has worked for a while gives signs of life.
func TestAliveOnceProven(t *testing.T) {
	clock := &setClock{now: 1}
	a := newAlive(t.TempDir(), clock, discard)
	for range int(provenAfter / time.Second) {
		a.worked()
		if _, err := os.Stat(filepath.Join(a.root, aliveFile)); err == nil {
			t.Fatal("a sign of life before the supervisor has worked for a while")
		}
		clock.now = clock.now.Add(time.Second)
	}
	a.worked()
	if _, err := os.Stat(filepath.Join(a.root, aliveFile)); err != nil {
		t.Errorf("no sign of life: %v", err)
	}
}

// begin starts an agent, which ends with end.
func (l *lookout) begin(t *testing.T) (end func()) {
	t.Helper()
	agent := newAlive(l.config.Root, l.clock, discard)
	agent.begin(t.Context())
	return func() {
		if err := agent.close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFenceInCrashLoop: an agent starts every ten seconds, and lives for three of them.
func TestFenceInCrashLoop(t *testing.T) {
	l := newLookout(t)
	l.sign.worked()
	l.fault = nil
	for range 120 { // 20 minutes
		before, end := l.tries, l.begin(t)
		l.pass(t, 3)
		if l.tries != before {
			t.Fatal("the fence acts beside an agent that starts")
		}
		end()
		l.pass(t, 7)
	}
	if l.tries < 7*110 {
		t.Errorf("%d attempts in 20 minutes without a working agent, want one in each second between", l.tries)
	}
	defer l.begin(t)() // for good
	before := l.tries
	for range 60 {
		l.sign.worked()
		l.pass(t, 1)
	}
	if l.tries != before {
		t.Errorf("%d attempts beside an agent that works", l.tries-before)
	}
}

// An agent that lives and does not get to work is away.
func TestFenceBesideHangingAgent(t *testing.T) {
	l := newLookout(t)
	l.sign.worked()
	l.pass(t, 55)
	defer l.begin(t)()
	l.pass(t, int(startPatience/time.Second))
	if l.tries != 0 {
		t.Errorf("%d attempts while the agent starts", l.tries)
	}
	l.pass(t, 2)
	if l.tries == 0 {
		t.Error("no attempt although the agent hangs")
	}
}

// An agent that starts waits for a fence that acts, but not for one that hangs.
func TestAgentAwaitsFence(t *testing.T) {
	root, log := t.TempDir(), &syncBuffer{}
	a := newAlive(root, lifecycle.LinuxClock{}, textLogger(log))
	fence, err := holdLock(filepath.Join(root, fenceFile))
	if err != nil {
		t.Fatal(err)
	}
	begun := make(chan struct{})
	go func() { defer close(begun); a.begin(t.Context()) }()
	signs := newAbsence(root, lifecycle.LinuxClock{})
	eventually(t, "the start", func() bool { _, coming := signs.look(); return coming })
	select {
	case <-begun:
		t.Error("the agent has not waited for the fence")
	default:
	}
	if err := fence.Close(); err != nil {
		t.Fatal(err)
	}
	receive(t, begun, "the end of the wait")
	if err := a.close(); err != nil {
		t.Error(err)
	}
	if _, coming := signs.look(); coming || log.String() != "" {
		t.Errorf("coming after its end: %t, log: %s", coming, log)
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

// TestFenceBesideFailingAgents: agents that cannot start do not move a fence that acts.
func TestFenceBesideFailingAgents(t *testing.T) {
	config := testConfig(t)
	config.BPFDir = mountBPF(t)
	a, runtime := startTracking(t, config)
	launch(t, config, runtime, "lives") // so that there is something to take over
	log := startFence(t, config)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	runtime.Stop()
	eventually(t, "the fence to act", func() bool {
		held, _ := lockHeld(filepath.Join(config.Root, fenceFile))
		return held && strings.Contains(log.String(), "launcher taken over")
	})
	broken := config
	broken.Listen = "no such address"
	for range 3 {
		if _, err := New(t.Context(), broken, testBuild, discard); err == nil {
			t.Fatal("an agent has started that cannot listen")
		}
	}
	<-time.After(2 * fenceLooks) // long enough to see what there is to see
	if strings.Contains(log.String(), "the fence steps aside") {
		t.Error("the fence has stepped aside for agents that do not start")
	}
	next := start(t, config)
	eventually(t, "the agent's supervision", func() bool { return strings.Contains(next.log.String(), "launcher taken over") })
	if !strings.Contains(log.String(), "the fence steps aside") {
		t.Error("the agent supervises, and the fence does, too")
	}
}
