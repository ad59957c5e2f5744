package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper starts a process that ends on a signal or with the test.
func sleeper(t *testing.T, name string, launcher *subject) *subject {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "2147483647")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := openProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.signal(unix.SIGKILL)
		_ = cmd.Wait()
	})
	return &subject{process: p, name: name, launcher: launcher}
}

// kill ends subjects without the checker's knowledge.
func kill(t *testing.T, all ...*subject) {
	t.Helper()
	for _, s := range all {
		if err := s.signal(unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.pidfd), Events: unix.POLLIN}},
			10000); n != 1 {
			t.Fatalf("%s does not end: %v", s.name, err)
		}
	}
}

func TestChecker(t *testing.T) {
	const bound = time.Second
	type cast struct{ launcher, vm, bystander *subject }
	for name, test := range map[string]struct {
		happens func(t *testing.T, c *checker, s cast)
		down    bool // the agent is down
		finding string
	}{
		"nothing happens": {happens: func(*testing.T, *checker, cast) {}},
		"VM killed, launcher lives": {
			happens: func(t *testing.T, _ *checker, s cast) { kill(t, s.vm) },
			finding: "its launcher lives",
		},
		"launcher killed without cause": {
			happens: func(t *testing.T, _ *checker, s cast) { kill(t, s.vm, s.launcher) },
			finding: "without cause",
		},
		"bystander killed": {
			happens: func(t *testing.T, _ *checker, s cast) { kill(t, s.bystander) },
			finding: "without cause",
		},
		"VM outlives its launcher": {happens: func(t *testing.T, c *checker, s cast) {
			c.expectEnd(s.launcher, s.vm)
			kill(t, s.launcher)
		}, finding: "outlives its launcher"},
		"VM outlives its launcher within its extra time": {
			happens: func(t *testing.T, c *checker, s cast) {
				s.vm.extraTime = time.Hour
				c.expectEnd(s.launcher, s.vm)
				kill(t, s.launcher)
			}},
		"VM outlives its launcher within a lease": {
			happens: func(t *testing.T, c *checker, s cast) {
				c.allowTime(s.launcher, time.Hour)
				c.allowTime(s.launcher, time.Second)
				c.expectEnd(s.launcher, s.vm)
				kill(t, s.launcher)
			}},
		"VM outlives its launcher while the agent is away": {
			happens: func(t *testing.T, c *checker, s cast) {
				c.expectEnd(s.launcher, s.vm)
				kill(t, s.launcher)
			}, down: true},
		"VM ends with its launcher": {happens: func(t *testing.T, c *checker, s cast) {
			c.expectEnd(s.launcher, s.vm)
			kill(t, s.launcher, s.vm)
		}},
		"VM ended as expected": {happens: func(t *testing.T, c *checker, s cast) {
			c.expectEnd(s.vm)
			kill(t, s.vm)
		}},
		"stop confirmed too early": {happens: func(_ *testing.T, c *checker, s cast) {
			c.expectEnd(s.vm)
			c.checkConfirmation([]*subject{s.vm})
		}, finding: "lives after its stop confirmation"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &checker{
				bound: bound, absolute: time.Hour, agentUp: func() bool { return !test.down },
				log: t.Logf, began: time.Now(),
			}
			var s cast
			s.launcher = sleeper(t, "launcher", nil)
			s.vm, s.bystander = sleeper(t, "VM", s.launcher), sleeper(t, "bystander", nil)
			for _, one := range []*subject{s.launcher, s.vm, s.bystander} {
				c.watch(one)
			}
			test.happens(t, c, s)
			for range 3 {
				if err := c.scan(bound); err != nil {
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
