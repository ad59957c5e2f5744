// Command blockopen prevents the replacement of a file:
//
//	blockopen FILE TEXT    blocks each open of FILE.new while FILE contains TEXT, until
//	                       blockopen ends. It prints "ready" at its start, and "blocked"
//	                       when it blocks an open.
//
// Processes may open the files in other mount namespaces. blockopen needs CAP_SYS_ADMIN. Tests
// run it on a node.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "blockopen:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q: want FILE and TEXT", args)
	}
	group, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC,
		unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fanotify: %w", err)
	}
	err = unix.FanotifyMark(group, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM|unix.FAN_EVENT_ON_CHILD,
		unix.AT_FDCWD, filepath.Dir(args[0]))
	if err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(args[0]), err)
	}
	fmt.Println("ready")
	return blocker{events: os.NewFile(uintptr(group), "fanotify"), file: args[0],
		text: []byte(args[1])}.run()
}

// blocker answers the kernel's permission events for opens in a directory.
type blocker struct {
	events *os.File
	file   string
	text   []byte
}

func (b blocker) run() error {
	buffer := make([]byte, 4096)
	for {
		n, err := b.events.Read(buffer)
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		for in := bytes.NewReader(buffer[:n]); in.Len() > 0; {
			var event unix.FanotifyEventMetadata
			if err := binary.Read(in, binary.NativeEndian, &event); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			// answer opens a file of the directory itself, so it must not block this loop
			go b.answer(event.Fd)
		}
	}
}

// answer allows an open, or leaves it without an answer.
func (b blocker) answer(fd int32) {
	defer unix.Close(int(fd))
	if b.blocks(fd) {
		fmt.Println("blocked")
		select {}
	}
	if err := binary.Write(b.events, binary.NativeEndian,
		unix.FanotifyResponse{Fd: fd, Response: unix.FAN_ALLOW}); err != nil {
		fmt.Fprintln(os.Stderr, "blockopen:", err)
	}
}

func (b blocker) blocks(fd int32) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || filepath.Base(path) != filepath.Base(b.file)+".new" {
		return false
	}
	has, err := os.ReadFile(b.file)
	return err == nil && bytes.Contains(has, b.text)
}
