// Command hold keeps a file from being replaced:
//
//	hold FILE TEXT    has who opens FILE.new wait, until hold is ended, while FILE has
//	                  TEXT. It prints "ready", and "held" when somebody waits.
//
// Both may be opened in other mount namespaces. It needs CAP_SYS_ADMIN. Tests run it on a
// node.
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
		fmt.Fprintln(os.Stderr, "hold:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("arguments %q: want FILE and TEXT", args)
	}
	group, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fanotify: %w", err)
	}
	err = unix.FanotifyMark(group, unix.FAN_MARK_ADD, unix.FAN_OPEN_PERM|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, filepath.Dir(args[0]))
	if err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(args[0]), err)
	}
	fmt.Println("ready")
	return holder{events: os.NewFile(uintptr(group), "fanotify"), file: args[0], text: []byte(args[1])}.run()
}

// holder answers who wants to open a file in a directory.
type holder struct {
	events *os.File
	file   string
	text   []byte
}

func (h holder) run() error {
	buffer := make([]byte, 4096)
	for {
		n, err := h.events.Read(buffer)
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		for in := bytes.NewReader(buffer[:n]); in.Len() > 0; {
			var event unix.FanotifyEventMetadata
			if err := binary.Read(in, binary.NativeEndian, &event); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			go h.answer(event.Fd) // which opens a file there itself
		}
	}
}

// answer lets a file be opened, or says nothing to it.
func (h holder) answer(fd int32) {
	defer unix.Close(int(fd))
	if h.holds(fd) {
		fmt.Println("held")
		select {}
	}
	if err := binary.Write(h.events, binary.NativeEndian, unix.FanotifyResponse{Fd: fd, Response: unix.FAN_ALLOW}); err != nil {
		fmt.Fprintln(os.Stderr, "hold:", err)
	}
}

func (h holder) holds(fd int32) bool {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || filepath.Base(path) != filepath.Base(h.file)+".new" {
		return false
	}
	has, err := os.ReadFile(h.file)
	return err == nil && bytes.Contains(has, h.text)
}
