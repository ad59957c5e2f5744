package bpf

import (
	"fmt"
	"syscall"
)

// tick is the unit of start times in /proc/PID/stat, in nanoseconds.
const tick = 10_000_000

// Process identifies a process. The kernel may reuse the number, but not with the same start time.
type Process struct {
	PID       int
	StartTime uint64 // CLOCK_BOOTTIME in ns
}

// Ticks returns the start time in hundredths of a second, as in field 22 of /proc/PID/stat. User
// space sees 100 ticks a second on every architecture.
func (p Process) Ticks() uint64 {
	return p.StartTime / tick
}

// File is the executable of a process. For a script it is the interpreter.
type File struct {
	Name   string // base name, cut after 63 bytes
	Inode  uint64 // from the file system; stat(2) may differ, for example on overlayfs
	Device uint64 // in the encoding of stat(2)
}

// Tracked is the tracker's record of a process.
type Tracked struct {
	Process
	Parent   int    // number of the parent at birth or at the scan, 0 if invisible
	Group    uint64 // id of the registered cgroup of its group, 0 for none
	Cgroup   uint64 // id of its cgroup (v2)
	Emulator bool   // the name of its executable is one of Options.Emulators
	Watched  bool   // see Tracker.Watch
	Bound    bool   // the group comes from Tracker.Bind, of this process or of an ancestor
	File     File
}

// Kind is the kind of an event.
type Kind uint8

// The kinds of events.
const (
	// Fork: a process was born, and it belongs to a group or executes an emulator, like its parent.
	Fork Kind = iota + 1
	// Exec: a process executes another file. With this event the tracker drops a process without a
	// group that no longer executes an emulator.
	Exec
	// Exit: the last thread of a process ended. The kernel may free its memory a little later: wait
	// for the pidfd.
	Exit
	// Move: a process entered a registered cgroup, or moved to another one.
	Move
	// Lost: since the last event, the kernel dropped events or skipped handler calls. Only Kind is
	// set. Call Resync.
	Lost
)

// String returns the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case Fork:
		return "fork"
	case Exec:
		return "exec"
	case Exit:
		return "exit"
	case Move:
		return "move"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// ExitStatus is the end of a process. Code is 0 after a signal.
type ExitStatus struct {
	Code       int
	Signal     syscall.Signal // 0 for none
	CoreDumped bool
}

// Event is a change of a process, with its record after the change. Events of one process arrive in
// order, events of several processes nearly so. An emulator without room in the map still causes
// Fork, Exec or Move, and no later event: see View.Complete.
type Event struct {
	Kind Kind
	Time uint64 // of the change: CLOCK_BOOTTIME in ns
	Tracked
	Exit        ExitStatus // of an Exit event
	WasEmulator bool       // of an Exec event: an emulator until then
}
