package bpf

import (
	"bytes"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fromBytes copies kernel bytes into one of the generated types, which have the same layout.
func fromBytes[T trackerEvent | trackerProcess](raw []byte) (T, error) {
	var value T
	if len(raw) < int(unsafe.Sizeof(value)) {
		return value, fmt.Errorf("record of %d bytes: want %d", len(raw), unsafe.Sizeof(value))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)), raw)
	return value, nil
}

// decodeEvent decodes a record of the event ring.
func decodeEvent(raw []byte) (Event, error) {
	e, err := fromBytes[trackerEvent](raw)
	if err != nil {
		return Event{}, err
	}
	kind, ok := kinds[e.Kind]
	if !ok {
		return Event{}, fmt.Errorf("record of unknown kind %d", e.Kind)
	}
	event := Event{Kind: kind, Time: e.Time}
	switch kind {
	case Exit:
		event.Exit = exitStatus(e.Status)
	case Exec:
		event.WasEmulator = e.Status != 0
	}
	event.Tracked, err = tracked(&e.Process)
	return event, err
}

var kinds = map[trackerKind]Kind{
	trackerKindKIND_FORK: Fork,
	trackerKindKIND_EXEC: Exec,
	trackerKindKIND_EXIT: Exit,
	trackerKindKIND_MOVE: Move,
}

// exitStatus decodes a wait(2) status.
func exitStatus(status uint32) ExitStatus {
	signal := syscall.Signal(status & 0x7f)
	if signal != 0 {
		return ExitStatus{Signal: signal, CoreDumped: status&0x80 != 0}
	}
	return ExitStatus{Code: int(status >> 8 & 0xff)}
}

func tracked(p *trackerProcess) (Tracked, error) {
	end := bytes.IndexByte(p.Name[:], 0)
	if end < 0 || p.Pid == 0 || p.Pid > 1<<30 || p.Parent > 1<<30 {
		return Tracked{}, fmt.Errorf("record of process %d with parent %d and name %q: not from "+
			"this tracker",
			p.Pid, p.Parent, p.Name)
	}
	return Tracked{
		Process:  identity(p),
		Parent:   int(p.Parent),
		Group:    p.Group,
		Cgroup:   p.Cgroup,
		Emulator: p.Emulator != 0,
		Watched:  p.Watched != 0,
		Bound:    p.Bound != 0,
		File:     File{Name: string(p.Name[:end]), Inode: p.Inode, Device: device(p.Device)},
	}, nil
}

func identity(p *trackerProcess) Process {
	return Process{PID: int(p.Pid), StartTime: p.Start}
}

// device converts the kernel's device encoding to that of stat(2).
func device(d uint32) uint64 {
	return unix.Mkdev(d>>20, d&(1<<20-1))
}
