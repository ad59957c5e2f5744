package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper is a process that ends on a signal or with the test.
func sleeper(t *testing.T, name string, owner *subject) *subject {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "2147483647")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := hold(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.signal(unix.SIGKILL)
		_ = cmd.Wait()
	})
	return &subject{process: p, name: name, owner: owner}
}

// kill ends subjects without the checker's knowledge.
func kill(t *testing.T, all ...*subject) {
	t.Helper()
	for _, s := range all {
		if err := s.signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.pidfd), Events: unix.POLLIN}}, 10000); n != 1 {
			t.Fatalf("%s does not end: %v", s.name, err)
		}
	}
}

// TestChecker tells findings from allowed events.
func TestChecker(t *testing.T) {
	const bound = time.Second
	type cast struct{ owner, vm, bystander *subject }
	for name, test := range map[string]struct {
		happens func(t *testing.T, c *checker, s cast)
		down    bool // the agent is down
		finding string
	}{
		"nothing happens":            {happens: func(*testing.T, *checker, cast) {}},
		"VM killed, owner lives":     {happens: func(t *testing.T, _ *checker, s cast) { kill(t, s.vm) }, finding: "its owner lives"},
		"owner killed by a stranger": {happens: func(t *testing.T, _ *checker, s cast) { kill(t, s.vm, s.owner) }, finding: "nobody asked"},
		"bystander killed":           {happens: func(t *testing.T, _ *checker, s cast) { kill(t, s.bystander) }, finding: "nobody asked"},
		"VM outlives its owner": {happens: func(t *testing.T, c *checker, s cast) {
			c.ask(s.owner, s.vm)
			kill(t, s.owner)
		}, finding: "outlives its owner"},
		"VM outlives its owner, as it may": {happens: func(t *testing.T, c *checker, s cast) {
			s.vm.patience = time.Hour
			c.ask(s.owner, s.vm)
			kill(t, s.owner)
		}},
		"VM outlives its owner while the agent is away": {happens: func(t *testing.T, c *checker, s cast) {
			c.ask(s.owner, s.vm)
			kill(t, s.owner)
		}, down: true},
		"VM goes with its owner": {happens: func(t *testing.T, c *checker, s cast) {
			c.ask(s.owner, s.vm)
			kill(t, s.owner, s.vm)
		}},
		"VM ended as asked": {happens: func(t *testing.T, c *checker, s cast) {
			c.ask(s.vm)
			kill(t, s.vm)
		}},
		"told to be gone too early": {happens: func(_ *testing.T, c *checker, s cast) {
			c.ask(s.vm)
			c.confirm([]*subject{s.vm})
		}, finding: "was told that it is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{bound: bound, absolute: time.Hour, agentUp: func() bool { return !test.down }, log: t.Logf, began: time.Now()}
			var s cast
			s.owner = sleeper(t, "owner", nil)
			s.vm, s.bystander = sleeper(t, "VM", s.owner), sleeper(t, "bystander", nil)
			for _, one := range []*subject{s.owner, s.vm, s.bystander} {
				c.watch(one)
			}
			test.happens(t, c, s)
			for range 3 {
				if err := c.look(bound); err != nil {
					t.Fatal(err)
				}
			}
			got := strings.Join(c.findings, "\n")
			if (test.finding == "") != (got == "") || !strings.Contains(got, test.finding) {
				t.Errorf("findings: %q, want %q", got, test.finding)
			}
		})
	}
}
