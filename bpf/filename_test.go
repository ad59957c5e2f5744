package bpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRenamedEmulator renames the file of a running emulator, as the upgrade of a package does.
func TestRenamedEmulator(t *testing.T) {
	o := Options{Dir: bpffs(t)}
	tracker := open(t, o)
	r := record(t, tracker)
	path := emulator(t)
	vm := start(t, nil, exec.Command(path, "600"))
	r.wait(Exec, vm.pid())
	r.stop()
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), "other")); err != nil {
		t.Fatal(err)
	}
	for _, reopens := range []bool{false, true} {
		if reopens {
			closeTracker(t, tracker)
			tracker = open(t, o)
		}
		resync(t, tracker)
		if p, ok := find(t, tracker, vm.pid()); !ok || !p.Emulator || p.File.Name != emulatorName {
			t.Errorf("snapshot has %+v (%t), want an emulator with its first name", p, ok)
		}
	}
	closeTracker(t, tracker)
	o.Emulators = []string{"other"}
	tracker = open(t, o)
	if p, _ := find(t, tracker, vm.pid()); p.Emulator {
		t.Errorf("snapshot has %+v, which is no emulator under the new policy", p)
	}
}

// TestNamesOfEmulators runs emulators under the names that wrappers and packages give them.
func TestNamesOfEmulators(t *testing.T) {
	eachVariant(t, func(t *testing.T, o Options) {
		tracker := open(t, o)
		r := record(t, tracker)
		commands := map[string]*exec.Cmd{
			"." + emulatorName + "-wrapped": nil,
			emulatorName + ".distrib":       nil,
			"memfd:" + emulatorName:         memfdCommand(t, emulatorName, "600"),
		}
		for name, cmd := range commands {
			if cmd == nil {
				cmd = exec.Command(program(t, name), "600")
			}
			vm := start(t, nil, cmd)
			if e := r.wait(Exec, vm.pid()); !e.Emulator || e.File.Name != name {
				t.Errorf("%s: %+v, want an emulator", name, e)
			}
			resync(t, tracker)
			if p, ok := find(t, tracker, vm.pid()); !ok || !p.Emulator {
				t.Errorf("%s: snapshot has %+v (%t), want an emulator", name, p, ok)
			}
		}
	})
}

// memfdCommand runs sleep from a file in memory.
func memfdCommand(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { _ = file.Close() })
	content, err := os.ReadFile(program(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3", args...)
	cmd.ExtraFiles = []*os.File{file}
	return cmd
}
