package bpf

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestOptionsThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		options Options
		want    string
	}{
		"a ring that is no power of two": {Options{RingBytes: 3 << 12}, "ring of 12288 bytes: " +
			"want a power of two"},
		"a ring that is too small": {Options{RingBytes: 512}, "ring of 512 bytes"},
		"few processes": {Options{MaxProcesses: 15},
			"room for 15 processes: want at least 16"},
		"a name with a folder": {Options{Emulators: []string{"/usr/bin/qemu"}},
			`emulator "/usr/bin/qemu": want the base name`},
		"no name":     {Options{Emulators: []string{""}}, `emulator ""`},
		"a long name": {Options{Emulators: []string{strings.Repeat("q", 64)}}, "1 to 63 bytes"},
		"many names":  {Options{Emulators: make([]string, 257)}, "257 emulators: want at most 256"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Open(test.options); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestPinsNeedABPFFileSystem(t *testing.T) {
	open(t, Options{})
	if _, err := Open(Options{Dir: t.TempDir()}); !errors.Is(err, ErrUnsupported) ||
		!strings.Contains(err.Error(), "mount -t bpf") {
		t.Errorf("%v, want %v and a remedy", err, ErrUnsupported)
	}
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: file}); err == nil {
		t.Error("a file was accepted as a directory")
	}
}
