package bpf

import (
	"syscall"
	"testing"
)

// TestExits ends processes in every possible way and wants one event each, with the status of
// wait(2).
func TestExits(t *testing.T) {
	tests := map[string]struct {
		start func(*testing.T, cgroup) (c *child, pid int)
		want  ExitStatus
		times int
	}{
		"code": {
			start: exitItself(func(t *testing.T, group cgroup) *child {
				return shell(t, &group, "exit 7")
			}),
			want: ExitStatus{Code: 7},
		},
		"signal": {
			start: exitItself(func(t *testing.T, group cgroup) *child {
				return shell(t, &group, "kill -TERM $$")
			}),
			want: ExitStatus{Signal: syscall.SIGTERM},
		},
		"the first thread ends first": {
			start: exitItself(func(t *testing.T, group cgroup) *child {
				c := startRole(t, &group, "leader first")
				c.readNumber()
				c.writeLine("end")
				return c
			}),
			want: ExitStatus{Code: 5},
		},
		"threads race": {
			start: exitItself(func(t *testing.T, group cgroup) *child {
				return startRole(t, &group, "race")
			}),
			want:  ExitStatus{Code: 6},
			times: 40,
		},
		"another thread than the first executes": {
			start: exitItself(func(t *testing.T, group cgroup) *child {
				return startRole(t, &group, "exec thread")
			}),
			want:  ExitStatus{Code: 4},
			times: 5,
		},
		"exit(2) of the only thread": {
			start: func(t *testing.T, group cgroup) (*child, int) {
				c := startRole(t, &group, "sys_exit")
				return c, c.readNumber()
			},
			want: ExitStatus{Code: 9},
		},
	}
	eachVariant(t, func(t *testing.T, o Options) {
		tracker := open(t, o)
		r := record(t, tracker)
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				group := newCgroup(t)
				register(t, tracker, group)
				for range max(test.times, 1) {
					c, pid := test.start(t, group)
					c.wait()
					wantOneExit(t, tracker, r, pid, test.want)
				}
			})
		}
		if s := figures(t, tracker); s.LostEvents != 0 {
			t.Errorf("figures: %+v, want no losses by threads that end at once", s)
		}
	})
}

func exitItself(start func(*testing.T, cgroup) *child) func(*testing.T, cgroup) (*child, int) {
	return func(t *testing.T, group cgroup) (*child, int) {
		c := start(t, group)
		return c, c.pid()
	}
}

// wantOneExit expects one exit event of a reaped process. The exit of a later marker proves that no
// second event follows.
func wantOneExit(t *testing.T, tracker *Tracker, r *recorder, pid int, want ExitStatus) {
	t.Helper()
	r.wait(Exit, runMarker(t))
	exits := r.matching(func(e Event) bool { return e.Kind == Exit && e.PID == pid })
	if len(exits) != 1 || exits[0].Exit != want {
		t.Errorf("exits of process %d: %+v, want one with %+v", pid, exits, want)
	}
	if p, ok := find(t, tracker, pid); ok {
		t.Errorf("snapshot has %+v, which has ended", p)
	}
}

func TestExitStatus(t *testing.T) {
	tests := map[uint32]ExitStatus{
		0:      {},
		7 << 8: {Code: 7},
		9:      {Signal: syscall.SIGKILL},
		0x8b:   {Signal: syscall.SIGSEGV, CoreDumped: true},
	}
	for status, want := range tests {
		if got := exitStatus(status); got != want {
			t.Errorf("status %#x: %+v, want %+v", status, got, want)
		}
	}
}
