package bpf

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
)

// TestRestart changes processes while no process has the tracker open.
func TestRestart(t *testing.T) {
	o := Options{Dir: bpffs(t)}
	group := newCgroup(t)
	tracker := open(t, o)
	register(t, tracker, group)
	stays := shell(t, &group, "read line; sleep 600 </dev/null & echo $!; wait")
	ends := shell(t, &group, "read line; exit 3")
	p, _ := find(t, tracker, stays.pid())
	if _, err := tracker.Watch(p.Process); err != nil {
		t.Fatal(err)
	}
	if err := tracker.Close(); err != nil {
		t.Fatal(err)
	}

	stays.writeLine("fork")
	forked := stays.readNumber()
	ends.writeLine("end")
	ends.wait()
	vm := start(t, &group, exec.Command(emulator(t), "600"))

	tracker = open(t, o)
	wantRegistered(t, &tracker.View, group.id)
	r := record(t, tracker)
	r.wait(Fork, forked)
	r.wait(Exec, vm.pid())
	if e := r.wait(Exit, ends.pid()); e.Exit.Code != 3 {
		t.Errorf("%+v, want code 3", e)
	}
	for pid, want := range map[int]Tracked{
		stays.pid(): {Watched: true}, forked: {}, vm.pid(): {Emulator: true},
	} {
		p, _ := find(t, tracker, pid)
		if p.Group != group.id || p.Watched != want.Watched || p.Emulator != want.Emulator {
			t.Errorf("process %d: %+v, want %+v in group %d", pid, p, want, group.id)
		}
	}
	if _, ok := find(t, tracker, ends.pid()); ok {
		t.Error("the process that ended is in the snapshot")
	}
}

// TestReplacedPins opens pins that differ from new ones, and expects everything that the map alone
// can show.
func TestReplacedPins(t *testing.T) {
	tests := map[string]struct {
		before, after Options
		between       func(t *testing.T, dir string)
		generation    string // afterwards
		lost          bool   // events may be missing
	}{
		"the same": {generation: "v2-1"},
		"other programs": {before: Options{build: "1"}, after: Options{build: "2"},
			generation: "v2-1"},
		"to raw programs": {before: Options{build: "1"}, after: Options{build: "2", raw: true},
			generation: "v2-1"},
		"more processes": {after: Options{MaxProcesses: 1 << 16}, generation: "v2-2",
			lost: true},
		"fewer groups":     {after: Options{MaxGroups: 2}, generation: "v2-2", lost: true},
		"a larger ring":    {after: Options{RingBytes: 1 << 21}, generation: "v2-2", lost: true},
		"a map is missing": {between: remove("v2-1/config"), generation: "v2-2", lost: true},
		"a link is missing": {
			before: Options{build: "1"}, after: Options{build: "1"},
			between: remove("v2-1/build-1/handle_exit"), generation: "v2-1",
		},
		"half a generation": {between: mkdir("v2-9"), generation: "v2-1"},
		"half a build": {before: Options{build: "1"}, after: Options{build: "2"},
			between: mkdir("v2-1/build-2"), generation: "v2-1"},
		"two generations": {between: mkdir("v2-0", "v2-0/ready"), generation: "v2-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := bpffs(t)
			test.before.Dir, test.after.Dir = dir, dir
			group, want := populate(t, test.before)
			if test.between != nil {
				test.between(t, dir)
			}
			tracker := open(t, test.after)
			wantRegistered(t, &tracker.View, group.id)
			got, err := tracker.Snapshot()
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("snapshot: %v\n-want +got\n%s", err, diff)
			}
			wantPins(t, dir, test.generation, filepath.Base(tracker.options.buildDir("")))
			r := record(t, tracker)
			c := shell(t, &group, "exit 0")
			c.wait()
			wantOneExit(t, tracker, r, c.pid(), ExitStatus{})
			if lost := r.matching(func(e Event) bool { return e.Kind == Lost }); len(lost) >
				0 != test.lost {
				t.Errorf("losses reported: %v, want %t", lost, test.lost)
			}
		})
	}
}

// populate opens a tracker, adds processes by cgroup, by lineage and by Bind, and closes it. It
// returns the snapshot.
func populate(t *testing.T, o Options) (cgroup, []Tracked) {
	t.Helper()
	group := newCgroup(t)
	tracker := open(t, o)
	register(t, tracker, group)
	shell(t, &group, "read line")
	orphan := shell(t, &group, "(sleep 600 </dev/null >/dev/null & echo $!)").readNumber()
	move(t, newCgroup(t), "cgroup.procs", orphan)
	bound := identify(t, shell(t, nil, "read line").pid())
	_, err := tracker.Watch(bound)
	if err := errors.Join(tracker.Bind(bound, group.id), err); err != nil {
		t.Fatal(err)
	}
	self := filepath.Base(os.Args[0])
	eventually(t, func() bool { // they execute their programs, and have no children
		all, err := tracker.Snapshot()
		return err == nil && len(all) == 3 && !slices.ContainsFunc(all, func(p Tracked) bool {
			return p.File.Name == self || p.PID == orphan && p.File.Name == "dash"
		})
	}, "three processes")
	all, err := tracker.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracker.Close(); err != nil {
		t.Fatal(err)
	}
	return group, all
}

func rename(from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func mkdir(names ...string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		for _, name := range names {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantPins expects one generation with one build.
func wantPins(t *testing.T, dir, generation, build string) {
	t.Helper()
	got, err := filepath.Glob(filepath.Join(dir, "v*", "build-*", ready))
	want := []string{filepath.Join(dir, generation, build, ready)}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("pins: %q, %v, want %q", got, err, want)
	}
	if got, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(got) != 1 {
		t.Errorf("pins: %q, %v, want one directory", got, err)
	}
}

// TestReplacementUnderLoad replaces programs and maps repeatedly while a group forks, and wants the
// exit of every process.
func TestReplacementUnderLoad(t *testing.T) {
	o := Options{Dir: bpffs(t)}
	group := newCgroup(t)
	tracker := open(t, o)
	register(t, tracker, group)
	storm := startRole(t, &group, "storm")
	for i := range uint32(6) {
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
		o.build = string(rune('a' + i))
		o.MaxGroups = 100 + i/2
		tracker = open(t, o)
		r := record(t, tracker)
		r.waitFor(func(e Event) bool { return e.Kind == Exit && e.Group == group.id },
			"the storm to go on")
		if _, ok := find(t, tracker, storm.pid()); !ok {
			t.Fatalf("after %d replacements the storm is not tracked", i+1)
		}
		r.stop()
	}
	stop(t, storm)
	if changes, err := tracker.Resync(); err != nil || len(changes.Found)+len(changes.Gone) != 0 {
		t.Errorf("changes: %+v, %v, want none", changes, err)
	}
	if all, err := tracker.Snapshot(); err != nil || len(all) != 0 {
		t.Errorf("snapshot: %+v, %v, want none", all, err)
	}
	wantEntryCounts(t, tracker, 0)
}

func TestBusy(t *testing.T) {
	dir := bpffs(t)
	tracker := open(t, Options{Dir: dir})
	if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrBusy) {
		t.Errorf("a second Open: %v, want %v", err, ErrBusy)
	}
	if err := Remove(dir); !errors.Is(err, ErrBusy) {
		t.Errorf("Remove: %v, want %v", err, ErrBusy)
	}
	if err := tracker.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v, want none", left, err)
	}
}

func TestOpenView(t *testing.T) {
	dir := bpffs(t)
	if _, err := OpenView(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a tracker: %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := OpenView(t.TempDir()); !errors.Is(err, ErrUnsupported) ||
		!strings.Contains(err.Error(), "mount -t bpf") {
		t.Errorf("outside of a bpf file system: %v, want %v and a remedy", err, ErrUnsupported)
	}
	group, want := populate(t, Options{Dir: dir})
	view, err := OpenView(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = view.Close() }()
	wantRegistered(t, view, group.id)
	got, err := view.Snapshot()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("snapshot: %v\n-want +got\n%s", err, diff)
	}
	if s, err := view.Stats(); err != nil || s.Processes != len(want) || s.Groups != 1 ||
		len(s.Programs) != 4 {
		t.Errorf("figures: %+v, %v, want %d processes", s, err, len(want))
	}
	if view.Replaced() {
		t.Error("Replaced is true before a replacement")
	}
	if other := open(t, Options{Dir: dir, MaxProcesses: 1000}); other.Replaced() ||
		!view.Replaced() {
		t.Errorf("after maps of another size: Replaced is %t for the tracker and %t for the "+
			"view, want false and true",
			other.Replaced(), view.Replaced())
	}
}

// TestUnknownSchema opens pins with another schema, and pins with entries of another size. Nobody
// knows the meaning of their bytes, so they stay.
func TestUnknownSchema(t *testing.T) {
	for name, between := range map[string]func(*testing.T, string){
		"v1-1": rename("v2-1", "v1-1"),
		"v7-4": rename("v2-1", "v7-4"),
		"v2-1": func(t *testing.T, dir string) {
			t.Helper()
			remove("v2-1/processes")(t, dir)
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 256,
				MaxEntries: 10})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = m.Close() }()
			if err := m.Pin(filepath.Join(dir, "v2-1/processes")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Dir: bpffs(t), Emulators: []string{emulatorName}}
			populate(t, o)
			between(t, o.Dir)
			if tracker, err := Open(o); !errors.Is(err, ErrSchema) ||
				!strings.Contains(err.Error(), filepath.Join(o.Dir, name)) {
				t.Errorf("Open: %v, %v, want %v and the directory", tracker, err, ErrSchema)
			}
			if view, err := OpenView(o.Dir); !errors.Is(err, ErrSchema) {
				t.Errorf("OpenView: %v, %v, want %v", view, err, ErrSchema)
			}
			if all, _, err := generations(o.Dir); err != nil || len(all) != 1 ||
				all[0].name() != name {
				t.Errorf("generations: %v, %v, want %s alone", all, err, name)
			}
			if err := Remove(o.Dir); err != nil {
				t.Error(err)
			}
			closeTracker(t, open(t, o))
		})
	}
}
