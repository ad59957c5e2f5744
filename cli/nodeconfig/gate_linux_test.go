package nodeconfig

import (
	"bytes"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// libvirt runs each program in qemu.d, so a new hook appears there under its final name only.
func TestGateAppearsInOneStep(t *testing.T) {
	f := newGateNode(t, gatePolicy)
	if err := f.ConfigureGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.script(t, hookProgram, "exit 0")
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	dir := filepath.Dir(filepath.Join(f.root, gate.HookPath))
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	if err := f.ConfigureGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := make([]byte, 4096)
	n, err := unix.Read(watch, events)
	if err != nil {
		t.Fatal(err)
	}
	name := string(bytes.Trim(events[unix.SizeofInotifyEvent:n], "\x00"))
	if events[4] != unix.IN_MOVED_TO || name != filepath.Base(gate.HookPath) {
		t.Errorf("first event % x with name %q, want one move to the hook", events[:n], name)
	}
}
