package bpf

import (
	"fmt"
	"syscall"
)

// tick is what /proc/PID/stat counts start times in, in nanoseconds.
const tick = 10_000_000

// Process is the identity of a process. Its number may be reused, but not by one
// that started at the same time.
type Process struct {
	PID       int
	StartTime uint64 // CLOCK_BOOTTIME in ns
}

// Ticks returns the start time as field 22 of /proc/PID/stat has it, in
// hundredths of a second. Linux has 100 of them for user space on every
// architecture.
func (p Process) Ticks() uint64 {
	return p.StartTime / tick
}

// File is the file that a process executes. For a script it is the interpreter.
type File struct {
	Name   string // without its folder, cut after 63 bytes
	Inode  uint64 // as the file system has it: stat(2) may differ, for example on overlayfs
	Device uint64 // as stat(2) encodes it
}

// Tracked is what is known of a process.
type Tracked struct {
	Process
	Parent   int    // number of the parent when the process was born or found, 0 when it cannot be seen
	Group    uint64 // id of the registered cgroup that it belongs to, 0 for none
	Cgroup   uint64 // id of the cgroup that it is in (v2)
	Emulator bool   // it executes a file whose name is one of Options.Emulators
	Watched  bool   // see Tracker.Watch
	Bound    bool   // the group is from Tracker.Bind, or that of a parent whose was
	File     File
}

// Kind is what an event tells of.
type Kind uint8

// The kinds of events.
const (
	// Fork: a process was born, and belongs to a group or executes an emulator, as
	// its parent does.
	Fork Kind = iota + 1
	// Exec: a process executes another file. A process without a group that no
	// longer executes an emulator is forgotten with this event.
	Exec
	// Exit: the last thread of a process ended. Its memory may take a while
	// longer to be freed: a pidfd tells when it is gone.
	Exit
	// Move: a process came into a registered cgroup, or moved to another one.
	Move
	// Lost: since the last event, events were dropped, or there was no room for
	// processes. Only the kind is set. To call Resync.
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

// ExitStatus is how a process ended. Code is 0 when a signal ended it.
type ExitStatus struct {
	Code       int
	Signal     syscall.Signal // 0 for none
	CoreDumped bool
}

// Event is what happened to a process, and what is known of it after that. The
// events of one process come in their order; those of several, by and large. For an
// emulator that there was no room for, Fork, Exec or Move come nevertheless, but
// nothing after that: see View.Complete.
type Event struct {
	Kind Kind
	Time uint64 // when it happened: CLOCK_BOOTTIME in ns
	Tracked
	Exit ExitStatus // of an Exit
}
