package main

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/integration/bench/report"
)

// needsTracker skips t if the kernel does not allow tracking processes.
func needsTracker(t *testing.T) {
	t.Helper()
	needsLaunchers(t)
	tracker, err := bpf.Open(bpf.Options{})
	if errors.Is(err, bpf.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := tracker.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestMeasureProcessStarts(t *testing.T) {
	needsTracker(t)
	found, err := measureProcessStarts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if rows := handlerCostRows(found); len(rows) != 9 {
		t.Errorf("%d rows, want four for tracked processes, four for others, and one "+
			"for empty programs", len(rows))
	}
	if rows := watcherRows(found); len(rows) != len(watchers())+3 {
		t.Errorf("%d rows, want one for each watcher and one for each count", len(rows))
	}
	if found.observed[tracked] != inLoop || found.observed[netlink] == 0 ||
		found.observed[untracked] != 0 {
		t.Errorf("observed: %v, want all %d tracked processes, and no other",
			found.observed, inLoop)
	}
}

func TestScans(t *testing.T) {
	needsTracker(t)
	const processes, rounds = 40, 2
	found, err := scans(t.Context(), processes, rounds)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{plainWalk, mooring} {
		if n := len(found[name]); n != rounds {
			t.Errorf("%s: %d measurements, want %d", name, n, rounds)
		}
	}
	if rows := scanRows(processes)(found); len(rows) != 2 || rows[1].Ratio == nil {
		t.Errorf("rows %+v, want one for each, the second with a ratio", rows)
	}
	if err := walkProcesses(1 << 22); err == nil {
		t.Error("a walk finds more processes than the kernel allows")
	}
}

func TestCosts(t *testing.T) {
	before := []bpf.ProgramStats{{Name: "fork", Runs: 10, Runtime: 1000},
		{Name: "move", Runs: 3, Runtime: 30}, {Name: "exit"}}
	after := []bpf.ProgramStats{{Name: "fork", Runs: 14, Runtime: 1800},
		{Name: "move", Runs: 3, Runtime: 30}, {Name: "new", Runs: 1, Runtime: 5}}
	got := costs(before, after)
	if len(got) != 1 || got["fork"] != 200*time.Nanosecond {
		t.Errorf("costs = %v, want 200 ns for a fork, and nothing for programs without calls "+
			"or without earlier statistics", got)
	}
}

func TestForkOf(t *testing.T) {
	message := func(kind, parent, child, group uint32) []byte {
		m := make([]byte, unix.NLMSG_HDRLEN+cnHeader+procEventData+16)
		at := m[unix.NLMSG_HDRLEN+cnHeader:]
		binary.NativeEndian.PutUint32(at, kind)
		// the parent's thread differs
		for i, v := range []uint32{parent + 1, parent, child, group} {
			binary.NativeEndian.PutUint32(at[procEventData+4*i:], v)
		}
		return m
	}
	for name, c := range map[string]struct {
		message []byte
		want    int
	}{
		"a process":          {message(connectorFork, 7, 8, 8), 7},
		"a thread":           {message(connectorFork, 7, 8, 7), 0},
		"something else":     {message(2, 7, 8, 8), 0},
		"cut off":            {message(connectorFork, 7, 8, 8)[:60], 0},
		"an acknowledgement": {nil, 0},
	} {
		if got := forkOf(c.message); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestForker(t *testing.T) {
	needsLaunchers(t)
	in, err := newCgroup("test")
	if err != nil {
		t.Fatal(err)
	}
	f, err := startForker(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	done, err := f.do(order{Count: 2*living + 1, Stays: emulatorLike(t)})
	if err != nil {
		t.Fatal(err)
	}
	if done.Started != 2*living+1 || done.Took <= 0 || len(done.Living) != 3 {
		t.Errorf("done = %+v, want %d started, of which every %dth lives", done, 2*living+1, living)
	}
	for _, pid := range done.Living {
		if !isRunning(pid) {
			t.Errorf("process %d does not run, want it to live until the forker ends", pid)
		}
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(done.Living, isRunning) {
		t.Error("processes are left")
	}
	if err := in.remove(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestStorms(t *testing.T) {
	needsTracker(t)
	all, err := storms(t.Context(), 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for condition, s := range all {
		if s.tracked == 0 || s.untracked == 0 || s.alive == 0 {
			t.Errorf("%s: %+v, want processes of each kind", condition, s)
		}
		if s.differencesAfter != 0 || s.lostProcesses != 0 {
			t.Errorf("%s: %+v, want no differences after Resync", condition, s)
		}
	}
	if rows := stormRows(all); len(rows) != 14 {
		t.Errorf("%d rows, want seven for each condition", len(rows))
	}
}

func TestDifferences(t *testing.T) {
	const group = 7
	truth := map[int]bool{1: true, 2: true}
	process := func(pid int, group uint64) bpf.Tracked {
		return bpf.Tracked{Process: bpf.Process{PID: pid}, Group: group}
	}
	for name, c := range map[string]struct {
		known []bpf.Tracked
		want  int
	}{
		"right":   {[]bpf.Tracked{process(1, group), process(2, 0)}, 0},
		"missing": {[]bpf.Tracked{process(1, group)}, 1},
		"too many": {[]bpf.Tracked{process(1, group), process(2, 0),
			process(3, group)}, 1},
		"of another group": {[]bpf.Tracked{process(1, group), process(2, 0), process(3, 8)},
			0},
		"none": {nil, 2},
	} {
		if got := differences(c.known, group, truth); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestStormGoals(t *testing.T) {
	rows := stormRows(map[string]storm{agentDown: {differencesAfter: 1, lostEvents: 5}})
	verdicts := map[report.Verdict]int{}
	for _, row := range rows {
		for _, g := range row.Goals {
			v, err := row.Verdict(g)
			if err != nil {
				t.Fatal(err)
			}
			verdicts[v]++
		}
	}
	if verdicts[report.Missed] != 1 || verdicts[report.Met] != 3 {
		t.Errorf("verdicts %v, want the one wrong process to miss its goal, and lost events none",
			verdicts)
	}
}

func TestChosen(t *testing.T) {
	all := measurements(quick(), "", "")
	some, err := chosen(all, []string{stormTable})
	if err != nil || len(some) != 1 || some[0].name != stormTable {
		t.Errorf("chosen = %v, %v, want the storm alone", namesOf(some), err)
	}
	if some, err := chosen(all, nil); err != nil || len(some) != len(all) {
		t.Errorf("chosen = %v, %v, want all", namesOf(some), err)
	}
	if _, err := chosen(all, []string{"weather"}); err == nil ||
		!strings.Contains(err.Error(), stormTable) {
		t.Errorf("err = %v, want it to list the names", err)
	}
}

// emulatorLike copies a program that sleeps.
func emulatorLike(t *testing.T) string {
	t.Helper()
	path, err := copyProgram("/bin/sleep", t.TempDir(), stormEmulator)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
