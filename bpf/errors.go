package bpf

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Errors to ask for with errors.Is.
var (
	// ErrUnsupported: the kernel or the rights of this process do not allow a
	// tracker. The error that wraps it names what is missing.
	ErrUnsupported = errors.New("tracking processes by eBPF is not possible here")
	// ErrBusy: another process has the pins open, or another call reads events.
	ErrBusy = errors.New("in use")
	// ErrNoProcess: there is no such process, or it cannot be seen.
	ErrNoProcess = errors.New("no such process")
	// ErrFull: a map is full.
	ErrFull = errors.New("full")
	// ErrClosed: the tracker was closed.
	ErrClosed = fs.ErrClosed
)

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsupported, fmt.Errorf(format, args...))
}

// explain says what is missing when the kernel refuses the programs.
func explain(err error) error {
	if _, missing := btf.LoadKernelSpec(); missing != nil {
		return unsupported("the kernel shows no types of its own (CONFIG_DEBUG_INFO_BTF, /sys/kernel/btf/vmlinux): %w", missing)
	}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return unsupported("it takes CAP_BPF and CAP_PERFMON: %w", err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS):
		return unsupported("it takes Linux 5.15 or newer: %w", err)
	}
	return err
}
