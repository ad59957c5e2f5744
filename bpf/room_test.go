package bpf

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// TestGroupLimitedToItsShare lets a group fork beyond its share, while another group starts an
// emulator.
func TestGroupLimitedToItsShare(t *testing.T) {
	eachVariant(t, func(t *testing.T, o Options) {
		noisy, quiet := newCgroup(t), newCgroup(t)
		o.MaxProcesses = 64
		tracker := open(t, o)
		register(t, tracker, noisy)
		register(t, tracker, quiet)
		resync(t, tracker)
		r := record(t, tracker)
		crowd := fill(t, noisy, 20)
		if s := figures(t, tracker); s.LostProcesses < 12 || s.Processes != 8 {
			t.Errorf("figures: %+v, want 8 processes, and others lost", s)
		}
		vm := start(t, &quiet, exec.Command(emulator(t), "600"))
		if e := r.wait(Exec, vm.pid()); !e.Emulator || e.Group != quiet.id {
			t.Errorf("%+v, want an emulator of group %d", e, quiet.id)
		}
		if p, ok := find(t, tracker, vm.pid()); !ok || p.Group != quiet.id {
			t.Errorf("snapshot has %+v (%t), want the emulator in group %d", p, ok, quiet.id)
		}
		lost := len(procs(t, noisy)) - 8
		for range 2 {
			changes, err := tracker.Resync()
			if !errors.Is(err, ErrFull) || len(changes.Found) != 0 || len(changes.NoRoom) != 1 ||
				changes.NoRoom[noisy.id] != lost {
				t.Errorf("Resync: %+v, %v, want %v and no room for %d processes of group %d",
					changes, err, ErrFull, lost, noisy.id)
			}
		}
		wantComplete(t, &tracker.View, false)
		r.wait(Exit, runMarker(t))
		if lost := r.matching(func(e Event) bool { return e.Kind == Lost }); len(lost) > 0 {
			t.Errorf("%d reports of losses, want none: a resync makes no room", len(lost))
		}
		crowd.kill()
		eventually(t, func() bool { return len(procs(t, noisy)) == 0 }, "the crowd to end")
		wantComplete(t, &tracker.View, false)
		resync(t, tracker)
		wantComplete(t, &tracker.View, true)
		wantTracked(t, tracker, quiet, vm.pid())
		wantEntryCounts(t, tracker, 1)
	})
}

// TestLastQuarter fills the part for ordinary processes.
func TestLastQuarter(t *testing.T) {
	tracker := open(t, Options{MaxProcesses: 16})
	for range 7 {
		group := newCgroup(t)
		register(t, tracker, group)
		fill(t, group, 1)
	}
	if s := figures(t, tracker); s.Processes != 12 || s.LostProcesses == 0 {
		t.Fatalf("figures: %+v, want 12 processes of 16, and others lost", s)
	}
	group := newCgroup(t)
	register(t, tracker, group)
	ordinary := shell(t, &group, "read line")
	if p, ok := find(t, tracker, ordinary.pid()); ok {
		t.Errorf("snapshot has %+v, want no room for it", p)
	}
	if err := tracker.Bind(identify(t, ordinary.pid()), group.id); !errors.Is(err, ErrFull) {
		t.Errorf("Bind: %v, want %v", err, ErrFull)
	}
	if _, err := tracker.Watch(identify(t, ordinary.pid())); err != nil {
		t.Errorf("Watch: %v, want room", err)
	}
	inside := start(t, &group, exec.Command(emulator(t), "600"))
	outside := start(t, nil, exec.Command(emulator(t), "600"))
	for _, c := range []*child{ordinary, inside, outside} {
		eventually(t, func() bool {
			_, ok := find(t, tracker, c.pid())
			return ok
		}, "%v to be tracked", c.cmd.Args)
	}
	wantEntryCounts(t, tracker, 15)
}

// TestEmulatorWithoutRoom starts more emulators in a group than have room. The long read interval
// shows that the ring wakes the reader.
func TestEmulatorWithoutRoom(t *testing.T) {
	group, other := newCgroup(t), newCgroup(t)
	tracker := open(t, Options{MaxProcesses: 16, readInterval: time.Hour})
	register(t, tracker, group)
	register(t, tracker, other)
	r := record(t, tracker)
	tracked := 0
	for range 4 { // the share is 3
		vm := start(t, &group, exec.Command(emulator(t), "600"))
		if e := r.wait(Exec, vm.pid()); !e.Emulator || e.Group != group.id ||
			e.File.Name != emulatorName || e.StartTime == 0 {
			t.Errorf("%+v, want the full record of an emulator", e)
		}
		if _, ok := find(t, tracker, vm.pid()); ok {
			tracked++
		}
	}
	if tracked != 3 {
		t.Errorf("%d emulators are tracked, want 3", tracked)
	}
	wantComplete(t, &tracker.View, false)
	vm := start(t, &other, exec.Command(emulator(t), "600"))
	r.wait(Exec, vm.pid())
	if _, ok := find(t, tracker, vm.pid()); !ok {
		t.Error("the other group's emulator is not tracked")
	}
}

// TestLossesOutliveTheTracker closes a tracker that lost processes.
func TestLossesOutliveTheTracker(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"the same maps":  func(*Options) {},
		"other maps":     func(o *Options) { o.RingBytes = 1 << 21 },
		"less room":      func(o *Options) { o.MaxProcesses = 16 },
		"other programs": func(o *Options) { o.build = "other" },
		"more room":      func(o *Options) { o.MaxProcesses = 80 },
	} {
		t.Run(name, func(t *testing.T) {
			group := newCgroup(t)
			o := Options{Dir: bpffs(t), MaxProcesses: 64}
			tracker := open(t, o)
			wantComplete(t, &tracker.View, true)
			register(t, tracker, group)
			crowd := fill(t, group, 20)
			wantComplete(t, &tracker.View, false)
			closeTracker(t, tracker)
			wantCompletePins(t, o.Dir, false)

			change(&o)
			tracker = open(t, o)
			wantComplete(t, &tracker.View, false)
			crowd.kill()
			eventually(t, func() bool { return len(procs(t, group)) == 0 }, "the crowd to end")
			resync(t, tracker)
			wantComplete(t, &tracker.View, true)
			wantEntryCounts(t, tracker, 0)
			closeTracker(t, tracker)
			wantCompletePins(t, o.Dir, true)
		})
	}
}

// TestNeverScanned opens a view of maps before any scan.
func TestNeverScanned(t *testing.T) {
	tracker := open(t, Options{})
	if err := tracker.updateSettings(func(s *trackerSettings) { s.Complete = 0 }); err != nil {
		t.Fatal(err)
	}
	wantComplete(t, &tracker.View, false)
	resync(t, tracker)
	wantComplete(t, &tracker.View, true)
}

// fill starts a shell with n child processes in a group. They run until killed.
func fill(t *testing.T, group cgroup, n int) *child {
	t.Helper()
	c := shell(t, &group,
		`i=0; while [ $i -lt $1 ]; do sleep 600 </dev/null >/dev/null & i=$((i+1)); done; echo `+
			`done; wait`,
		strconv.Itoa(n))
	c.readLine()
	return c
}

func resync(t testing.TB, tracker *Tracker) {
	t.Helper()
	if _, err := tracker.Resync(); err != nil {
		t.Fatal(err)
	}
}

func closeTracker(t *testing.T, tracker *Tracker) {
	t.Helper()
	if err := tracker.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantComplete(t *testing.T, view *View, want bool) {
	t.Helper()
	if got, err := view.Complete(); err != nil || got != want {
		t.Errorf("complete: %t, %v, want %t", got, err, want)
	}
}

func wantCompletePins(t *testing.T, dir string, want bool) {
	t.Helper()
	view, err := OpenView(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Close() }()
	wantComplete(t, view, want)
}

// wantEntryCounts expects this number of entries in the map and in all its counters.
func wantEntryCounts(t *testing.T, tracker *Tracker, want int) {
	t.Helper()
	var tally trackerTally
	if err := tracker.maps[trackerMapTally].Lookup(uint32(0), &tally); err != nil {
		t.Fatal(err)
	}
	shares := 0
	for _, n := range tally.Shares {
		shares += int(n)
	}
	if s := figures(t, tracker); s.Processes != want || int(tally.Entries) != want ||
		shares != want {
		t.Errorf("%d entries, counted as %d, and as %d in shares: want %d", s.Processes,
			tally.Entries, shares, want)
	}
}
