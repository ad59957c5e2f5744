package bpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWakes checks when the ring becomes readable.
func TestWakes(t *testing.T) {
	group := newCgroup(t)
	tracker := open(t, Options{})
	register(t, tracker, group)
	owner := shell(t, &group, "read line; exit 3")
	p, ok := find(t, tracker, owner.pid())
	if !ok {
		t.Fatal("the owner is not tracked")
	}
	if _, err := tracker.Watch(p.Process); err != nil {
		t.Fatal(err)
	}
	ring := waitOn(t, tracker)
	steps := []struct {
		name string
		do   func()
		want bool
	}{
		{"an ordinary process comes and goes", func() {
			shell(t, &group, "(sleep 0); exit 0").wait()
		}, false},
		{"a watched process ends", func() { owner.writeLine("end"); owner.wait() }, true},
		{"an emulator comes and goes", func() { runMarker(t) }, true},
		{"ordinary processes fill the ring", func() { shell(t, &group, manyForks(3000)).wait() },
			true},
	}
	for _, step := range steps {
		step.do()
		if got := ring.readable(t, step.want); got != step.want {
			t.Errorf("%s: woken %t, want %t", step.name, got, step.want)
		}
		ring.drain(t, tracker)
	}
}

// TestWatchedExitWakesReader uses a reader with a long read interval.
func TestWatchedExitWakesReader(t *testing.T) {
	tracker := open(t, Options{readInterval: time.Hour})
	r := record(t, tracker)
	c := shell(t, nil, "read line; exit 3")
	if _, err := tracker.Watch(identify(t, c.pid())); err != nil {
		t.Fatal(err)
	}
	c.writeLine("end")
	e := r.wait(Exit, c.pid())
	if !e.Watched || e.Exit.Code != 3 || e.Group != 0 {
		t.Errorf("%+v, want a watched process with code 3", e)
	}
}

// TestEmulatorWakesReader daemonizes and runs a helper as QEMU does. The read interval is long.
func TestEmulatorWakesReader(t *testing.T) {
	tracker := open(t, Options{readInterval: time.Hour})
	r := record(t, tracker)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	script := `read line; (read line <"$1"; exec sleep 600 </dev/null >/dev/null) & echo $!; wait`
	c := start(t, nil, exec.Command(programOf(t, "sh", emulatorName), "-c", script, "sh", fifo))
	parent := r.wait(Exec, c.pid())
	c.writeLine("fork")
	child := c.readNumber()
	if e := r.wait(Fork, child); !e.Emulator || e.Parent != c.pid() || e.File != parent.File {
		t.Errorf("%+v, want an emulator like its parent, %+v", e, parent)
	}
	if err := os.WriteFile(fifo, []byte("exec\n"), 0); err != nil {
		t.Fatal(err)
	}
	if e := r.wait(Exec, child); e.Emulator || e.File.Name != "sleep" {
		t.Errorf("%+v, want a process that is no emulator", e)
	}
	if p, ok := find(t, tracker, child); ok {
		t.Errorf("snapshot has %+v, which is no emulator any more", p)
	}
}

func manyForks(n int) string {
	return "i=0; while [ $i -lt " + strconv.Itoa(n) + " ]; do (:); i=$((i+1)); done"
}

// epoll waits on the ring of a tracker.
type epoll int

func waitOn(t *testing.T, tracker *Tracker) epoll {
	t.Helper()
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	ring := tracker.maps[trackerMapEvents].FD()
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(ring)}
	if err := unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, ring, &event); err != nil {
		t.Fatal(err)
	}
	epoll(fd).readable(t, false)
	epoll(fd).drain(t, tracker)
	return epoll(fd)
}

// readable reports a wake-up. With wait it waits for one.
func (e epoll) readable(t *testing.T, wait bool) bool {
	t.Helper()
	timeout := 0
	if wait {
		timeout = int(deadline / time.Millisecond)
	}
	n, err := unix.EpollWait(int(e), make([]unix.EpollEvent, 1), timeout)
	if err != nil {
		t.Fatal(err)
	}
	return n > 0
}

// drain reads all events and resets the wake-ups.
func (e epoll) drain(t *testing.T, tracker *Tracker) {
	t.Helper()
	r := record(t, tracker)
	r.wait(Exit, runMarker(t))
	r.stop()
	e.readable(t, false)
}
