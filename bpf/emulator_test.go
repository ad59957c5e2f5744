package bpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// runProgram runs a program to its end and returns its number.
func runProgram(t testing.TB, cmd *exec.Cmd) int {
	t.Helper()
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestEmulatorOutsideOfGroups(t *testing.T) {
	eachVariant(t, func(t *testing.T, o Options) {
		r := record(t, open(t, o))
		path := emulator(t)
		pid := runProgram(t, exec.Command(path, "0"))
		exit := r.wait(Exit, pid)
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			t.Fatal(err)
		}
		for _, e := range []Event{r.wait(Exec, pid), exit} {
			want := File{Name: emulatorName, Inode: stat.Ino, Device: stat.Dev}
			if e.Group != 0 || !e.Emulator || e.Parent != os.Getpid() ||
				(e.File != want && e.File.Name != emulatorName) {
				t.Errorf("%+v, want an emulator without a group, of %+v", e, want)
			}
		}
	})
}

// TestNoEmulator starts programs that resemble an emulator.
func TestNoEmulator(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	called := exec.Command(sleep, "0")
	called.Args[0] = emulatorName
	linked := filepath.Join(t.TempDir(), emulatorName)
	if err := os.Symlink(sleep, linked); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), emulatorName)
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := map[string]*exec.Cmd{
		"by its first argument":      called,
		"by a symbolic link":         exec.Command(linked, "0"),
		"by a script":                exec.Command(script),
		"by a name that only begins": exec.Command(program(t, emulatorName+"-not"), "0"),
		"by a name as long":          exec.Command(program(t, emulatorName[1:]+"x"), "0"),
	}
	r := record(t, open(t, Options{}))
	for name, cmd := range tests {
		t.Run(name, func(t *testing.T) {
			pid := runProgram(t, cmd)
			r.wait(Exit, runMarker(t))
			if got := r.matching(func(e Event) bool { return e.PID == pid }); len(got) != 0 {
				t.Errorf("events: %+v, want none", got)
			}
		})
	}
}

// TestEmulatorForks forks as QEMU's -daemonize does: the child is an emulator, too, until it
// executes another file.
func TestEmulatorForks(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	tracker := open(t, Options{Emulators: []string{filepath.Base(shell)}})
	r := record(t, tracker)
	c := start(t, nil, exec.Command("/bin/sh", "-c", "(read line; exec sleep 600) & echo $!; wait"))
	c.cmd.Stdin = nil
	pid := c.readNumber()
	if e := r.wait(Fork, pid); !e.Emulator || e.Group != 0 {
		t.Errorf("%+v, want an emulator without a group", e)
	}
}

func TestEmulatorThatExecutesAnother(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	tracker := open(t, Options{Emulators: []string{filepath.Base(shell)}})
	r := record(t, tracker)
	c := start(t, nil, exec.Command("/bin/sh", "-c", "read line; exec sleep 600"))
	r.wait(Exec, c.pid())
	if p, ok := find(t, tracker, c.pid()); !ok || !p.Emulator {
		t.Errorf("snapshot has %+v (%t), want an emulator", p, ok)
	}
	c.writeLine("exec")
	r.waitFor(func(e Event) bool {
		return e.Kind == Exec && e.PID == c.pid() && !e.Emulator && e.WasEmulator
	},
		"the other program")
	if p, ok := find(t, tracker, c.pid()); ok {
		t.Errorf("snapshot has %+v, which is no emulator any more", p)
	}
}

// TestEmulatorsChange reopens the pins with other emulator names.
func TestEmulatorsChange(t *testing.T) {
	dir, other := bpffs(t), emulatorName+"-2"
	first := exec.Command(emulator(t), "600")
	second := exec.Command(program(t, other), "600")
	before, after := start(t, nil, first), start(t, nil, second)
	for _, step := range []struct {
		names  []string
		before bool
		after  bool
	}{
		{[]string{emulatorName}, true, false},
		{[]string{emulatorName, other}, true, true},
		{[]string{other}, false, true},
	} {
		tracker := open(t, Options{Dir: dir, Emulators: step.names})
		p, _ := find(t, tracker, before.pid())
		q, _ := find(t, tracker, after.pid())
		if p.Emulator != step.before || q.Emulator != step.after {
			t.Errorf("with %q: %t and %t, want %t and %t", step.names, p.Emulator, q.Emulator,
				step.before, step.after)
		}
		if err := tracker.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
