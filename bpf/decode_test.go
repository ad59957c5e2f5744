package bpf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sample is a record as written by the kernel.
func sample(edit func(*trackerEvent)) []byte {
	e := trackerEvent{Time: 2e9, Kind: trackerKindKIND_EXIT, Status: 0x8b}
	e.Process = trackerProcess{Start: 1e9, Group: 5, Cgroup: 6, Inode: 7, Device: 8<<20 | 1, Pid: 9,
		Parent: 1, Emulator: 1}
	copy(e.Process.Name[:], emulatorName)
	edit(&e)
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&e)), unsafe.Sizeof(e))...)
}

func TestDecode(t *testing.T) {
	got, err := decodeEvent(sample(func(*trackerEvent) {}))
	want := Event{
		Kind: Exit, Time: 2e9, Exit: ExitStatus{Signal: unix.SIGSEGV, CoreDumped: true},
		Tracked: Tracked{
			Process: Process{PID: 9, StartTime: 1e9}, Parent: 1, Group: 5, Cgroup: 6,
			Emulator: true,
			File:     File{Name: emulatorName, Inode: 7, Device: unix.Mkdev(8, 1)},
		},
	}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got.Ticks() != 100 {
		t.Errorf("%d ticks, want 100", got.Ticks())
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string][]byte{
		"nothing":       nil,
		"too short":     sample(func(*trackerEvent) {})[1:],
		"kind 0":        sample(func(e *trackerEvent) { e.Kind = 0 }),
		"kind 99":       sample(func(e *trackerEvent) { e.Kind = 99 }),
		"process 0":     sample(func(e *trackerEvent) { e.Process.Pid = 0 }),
		"a huge number": sample(func(e *trackerEvent) { e.Process.Pid = 1 << 31 }),
		"an endless name": sample(func(e *trackerEvent) {
			copy(e.Process.Name[:], strings.Repeat("x", nameSize))
		}),
	}
	for name, raw := range tests {
		if e, err := decodeEvent(raw); err == nil {
			t.Errorf("%s: %+v, want an error", name, e)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(nil))
	for kind := range trackerKind(6) {
		f.Add(sample(func(e *trackerEvent) { e.Kind = kind }))
	}
	f.Add(sample(func(e *trackerEvent) { e.Process.Pid = 1 << 31 }))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := decodeEvent(raw)
		if err != nil {
			return
		}
		if e.PID <= 0 || e.Parent < 0 || len(e.File.Name) >= nameSize ||
			strings.HasPrefix(e.Kind.String(), "kind") {
			t.Errorf("%+v is no event", e)
		}
		if e.Kind != Exit && e.Exit != (ExitStatus{}) {
			t.Errorf("%+v has not ended", e)
		}
	})
}

func TestCgroupID(t *testing.T) {
	c := newCgroup(t)
	below := c.below(t, "below")
	if c.id == 0 || c.id == below.id {
		t.Errorf("cgroups %d and %d, want two ids", c.id, below.id)
	}
	for name, path := range map[string]string{
		"no folder":         filepath.Join(c.path, "none"),
		"not a cgroup":      t.TempDir(),
		"a cgroup's file":   filepath.Join(c.path, "cgroup.procs"),
		"of another system": os.DevNull,
	} {
		if id, err := CgroupID(path); err == nil {
			t.Errorf("%s: %d, want an error", name, id)
		}
	}
}
