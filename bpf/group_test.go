package bpf

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGroups brings a process into the group of a registered cgroup in every possible way, and
// checks events and map.
func TestGroups(t *testing.T) {
	tests := map[string]func(t *testing.T, tracker *Tracker, group cgroup) (pid int, kind Kind){
		"born into the cgroup": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			return shell(t, &group, "read line").pid(), Fork
		},
		"born into a cgroup below": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			below := group.below(t, "container")
			return shell(t, &below, "read line").pid(), Fork
		},
		"moved": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			c := shell(t, nil, "echo; read line")
			c.readLine() // a change during an exec is part of the Exec event
			move(t, group, "cgroup.procs", c.pid())
			return c.pid(), Move
		},
		"forked": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			return shell(t, &group, "sleep 600 & echo $!; wait").readNumber(), Fork
		},
		"forked twice, the parent gone": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			return shell(t, &group, "(sleep 600 </dev/null >/dev/null & echo $!)").readNumber(),
				Fork
		},
		"vfork": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			return startRole(t, &group, "spawn").readNumber(), Fork
		},
		"CLONE_PARENT": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			pid := startRole(t, &group, "clone parent").readNumber()
			t.Cleanup(func() { killAndReap(t, pid) })
			return pid, Fork
		},
		"moved out": func(t *testing.T, _ *Tracker, group cgroup) (int, Kind) {
			c := shell(t, &group, "read line")
			move(t, newCgroup(t), "cgroup.procs", c.pid())
			return c.pid(), Move
		},
		"forked after its parent was moved out": func(t *testing.T, _ *Tracker,
			group cgroup) (int, Kind) {
			c := shell(t, &group, "read line; sleep 600 </dev/null & echo $!; wait")
			move(t, newCgroup(t), "cgroup.procs", c.pid())
			c.writeLine("fork")
			return c.readNumber(), Fork
		},
		"an emulator that is moved in": func(t *testing.T, tracker *Tracker,
			group cgroup) (int, Kind) {
			c := start(t, nil, exec.Command(emulator(t), "600"))
			eventually(t, func() bool { _, ok := find(t, tracker, c.pid()); return ok },
				"the emulator's exec")
			move(t, group, "cgroup.procs", c.pid())
			return c.pid(), Move
		},
		"executes in a cgroup that was registered late": func(t *testing.T, tracker *Tracker,
			group cgroup) (int, Kind) {
			unregister(t, tracker, group)
			c := shell(t, &group, "read line; exec sleep 600")
			register(t, tracker, group)
			c.writeLine("exec")
			return c.pid(), Exec
		},
		"executes below a cgroup that was registered late": func(t *testing.T, tracker *Tracker,
			group cgroup) (int, Kind) {
			unregister(t, tracker, group)
			parent := group.below(t, "pod")
			below := parent.below(t, "container")
			c := shell(t, &below, "read line; exec sleep 600")
			register(t, tracker, group)
			c.writeLine("exec")
			return c.pid(), Exec
		},
		"of two registered cgroups, the nearer": func(t *testing.T, tracker *Tracker,
			group cgroup) (int, Kind) {
			parent := newCgroup(t)
			register(t, tracker, parent)
			c := shell(t, &parent, "echo; read line")
			c.readLine()
			move(t, group, "cgroup.procs", c.pid())
			return c.pid(), Move
		},
	}
	eachVariant(t, func(t *testing.T, o Options) {
		tracker := open(t, o)
		r := record(t, tracker)
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				group := newCgroup(t)
				register(t, tracker, group)
				pid, kind := test(t, tracker, group)
				event := r.waitFor(func(e Event) bool {
					return e.Kind == kind && e.PID == pid && e.Group == group.id
				}, "%v of %d in group %d", kind, pid, group.id)
				if p, ok := find(t, tracker, pid); !ok || p.Group != group.id ||
					p.Process != event.Process {
					t.Errorf("snapshot has %+v (%t), want it in group %d and started at %d", p, ok,
						group.id, event.StartTime)
				}
			})
		}
	})
}

// eachVariant runs a test with typed and with raw tracepoints.
func eachVariant(t *testing.T, test func(*testing.T, Options)) {
	t.Helper()
	t.Run("tp_btf", func(t *testing.T) { test(t, Options{}) })
	t.Run("raw_tp", func(t *testing.T) { test(t, Options{raw: true}) })
}

func register(t testing.TB, tracker *Tracker, group cgroup) {
	t.Helper()
	if err := tracker.Register(group.id); err != nil {
		t.Fatal(err)
	}
}

func unregister(t testing.TB, tracker *Tracker, group cgroup) {
	t.Helper()
	if err := tracker.Unregister(group.id); err != nil {
		t.Fatal(err)
	}
}

func killAndReap(t testing.TB, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Error(err)
	}
}
