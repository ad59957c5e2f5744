package main

import (
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const powerButton = "power button"

// watchButtons sends an event when the ACPI power button is pressed. Any input device may be the
// button.
func watchButtons(events chan<- string) {
	devices, _ := filepath.Glob("/dev/input/event*")
	for _, path := range devices {
		if f, err := os.Open(path); err == nil {
			go watchKeys(f, events)
		}
	}
}

// watchKeys reads struct input_event: 16 bytes of time, then type, code and value.
func watchKeys(f *os.File, events chan<- string) {
	const isKey, power = 1, 116
	event := make([]byte, 24)
	for {
		if _, err := f.Read(event); err != nil {
			return
		}
		kind, code := binary.LittleEndian.Uint16(event[16:]), binary.LittleEndian.Uint16(event[18:])
		if kind == isKey && code == power && event[20] == 1 {
			events <- powerButton
		}
	}
}

// watchUevents sends an event when CPUs or memory are plugged or unplugged.
func watchUevents(log *slog.Logger, events chan<- string) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1})
	}
	if err != nil {
		log.Error("uevents", "error", err)
		return
	}
	message := make([]byte, 8192)
	for {
		n, err := unix.Read(fd, message)
		text := string(message[:max(n, 0)])
		if err != nil || strings.Contains(text, "/cpu") || strings.Contains(text, "/memory") {
			events <- "uevent" // an error means lost messages
		}
	}
}
