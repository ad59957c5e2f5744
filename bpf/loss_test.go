package bpf

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRingOverflows causes more events than the ring can hold, without a reader.
func TestRingOverflows(t *testing.T) {
	group := newCgroup(t)
	tracker := open(t, Options{RingBytes: uint32(os.Getpagesize())})
	register(t, tracker, group)
	c := shell(t, &group, manyForks(200)+"; sleep 600 </dev/null & echo $!; wait")
	last := c.readNumber()
	s := figures(t, tracker)
	if s.LostEvents == 0 || s.LostProcesses != 0 {
		t.Errorf("figures: %+v, want lost events, and no lost processes", s)
	}
	r := record(t, tracker)
	r.waitFor(func(e Event) bool { return e.Kind == Lost }, "an event Lost")
	eventually(t, func() bool { // otherwise Resync may see the new program before its event
		p, ok := find(t, tracker, last)
		return ok && p.File.Name == "sleep"
	}, "the execution of sleep")
	if changes, err := tracker.Resync(); err != nil || len(changes.Found)+len(changes.Gone) != 0 {
		t.Errorf("changes: %+v, %v, want none: the map was right", changes, err)
	}
	wantTracked(t, tracker, group, c.pid(), last)
	c.kill()
	r.wait(Exit, last)
	if n := len(r.matching(func(e Event) bool { return e.Kind == Lost })); n != 1 {
		t.Errorf("%d reports of losses, want one", n)
	}
}

// TestProcessesGone leaves an ended process in the map.
func TestProcessesGone(t *testing.T) {
	tracker := open(t, Options{})
	stale := trackerProcess{Start: 5, Group: 6, Pid: 1 << 22}
	if err := tracker.edit(trackerChange{Tgid: 1 << 22, Process: stale}); err != nil {
		t.Fatal(err)
	}
	if p, ok := find(t, tracker, 1<<22); ok {
		t.Errorf("snapshot has %+v", p)
	}
	changes, err := tracker.Resync()
	if err != nil || len(changes.Gone) != 1 ||
		changes.Gone[0].Process != (Process{PID: 1 << 22, StartTime: 5}) {
		t.Errorf("changes: %+v, %v, want the process gone", changes, err)
	}
	if s := figures(t, tracker); s.Processes != 0 {
		t.Errorf("figures: %+v, want no processes", s)
	}
}

// TestForkStorm lets a group and other processes fork concurrently, and wants the events of the
// group's processes alone.
func TestForkStorm(t *testing.T) {
	group := newCgroup(t)
	tracker := open(t, Options{RingBytes: 16 << 20}) // large enough for a slow reader
	register(t, tracker, group)
	stays := shell(t, &group, "read line")
	r := record(t, tracker)
	ours, unrelated := startRole(t, &group, "storm"), startRole(t, nil, "storm")
	const exits = 3000
	eventually(t, func() bool {
		return len(r.matching(func(e Event) bool { return e.Kind == Exit })) >= exits
	}, "%d exits", exits)
	started := stop(t, ours)
	stop(t, unrelated)
	eventually(t, func() bool { return len(procs(t, group)) == 1 }, "the storm to end")
	changes, err := tracker.Resync()
	wantTracked(t, tracker, group, stays.pid())
	if n := figures(t, tracker).SkippedCalls; n > 0 && err == nil {
		t.Logf("the kernel left %d calls out, and Resync found %d processes gone", n,
			len(changes.Gone))
		return
	}
	if err != nil || len(changes.Found)+len(changes.Gone) != 0 {
		t.Errorf("changes: %+v, %v, want none", changes, err)
	}
	if s := figures(t, tracker); s.LostEvents+s.LostProcesses+s.Stale != 0 {
		t.Fatalf("figures: %+v, want no losses", s)
	}
	wantEntryCounts(t, tracker, 1)
	r.wait(Exit, runMarker(t))
	r.stop()
	wantBirthsAndDeaths(t, r, group, stays.pid(), started)
}

// wantBirthsAndDeaths expects a birth and an exit event for each process of the group, except for
// one that still runs. shells is how often the storm executed a shell.
func wantBirthsAndDeaths(t *testing.T, r *recorder, group cgroup, lives, shells int) {
	t.Helper()
	living := map[Process]int{}
	for _, e := range r.matching(func(e Event) bool { return e.PID != lives && !e.Emulator }) {
		switch e.Kind {
		case Fork:
			living[e.Process]++
		case Exit:
			living[e.Process]--
		case Exec:
			shells--
		}
		if e.Group != group.id {
			t.Errorf("%+v is not of the group", e)
		}
	}
	for p, n := range living {
		if n != 0 {
			t.Errorf("process %+v: %d more forks than exits", p, n)
		}
	}
	if shells != -1 { // the storm itself is the -1
		t.Errorf("%d more shells than executed files", shells+1)
	}
}

// stop ends a storm and returns its number of forks.
func stop(t *testing.T, storm *child) int {
	t.Helper()
	if err := storm.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n := storm.readNumber()
	storm.wait()
	return n
}

func figures(t testing.TB, tracker *Tracker) Stats {
	t.Helper()
	s, err := tracker.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// procs returns the processes of a cgroup.
func procs(t *testing.T, c cgroup) []int {
	t.Helper()
	text, err := os.ReadFile(c.path + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, line := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// wantTracked expects these processes of a group in a snapshot and no other ones.
func wantTracked(t *testing.T, tracker *Tracker, group cgroup, want ...int) {
	t.Helper()
	all, err := tracker.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := map[int]bool{}
	for _, p := range all {
		got[p.PID] = p.Group == group.id
	}
	for _, pid := range want {
		if !got[pid] {
			t.Errorf("process %d is not tracked in group %d: %+v", pid, group.id, all)
		}
	}
	if len(all) != len(want) {
		t.Errorf("tracked: %+v, want processes %d alone", all, want)
	}
}
