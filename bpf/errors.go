package bpf

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Errors for errors.Is.
var (
	// ErrUnsupported: the kernel or the rights of this process do not allow a tracker. The wrapping
	// error names the missing part.
	ErrUnsupported = errors.New("tracking processes by eBPF is not possible here")
	// ErrBusy: another process has the pins open, or another call reads events.
	ErrBusy = errors.New("in use")
	// ErrNoProcess: the process does not exist or is invisible here.
	ErrNoProcess = errors.New("no such process")
	// ErrFull: a map is full.
	ErrFull = errors.New("full")
	// ErrSchema: another version made the pins, with a layout unknown to this one. The pins stay.
	ErrSchema = errors.New("unknown layout of pins")
	// ErrClosed: the tracker was closed.
	ErrClosed = fs.ErrClosed
)

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnsupported, fmt.Errorf(format, args...))
}

// explainLoadError adds the missing requirement to an error of the kernel's program loader.
func explainLoadError(err error) error {
	if _, missing := btf.LoadKernelSpec(); missing != nil {
		return unsupported("the kernel has no type information "+
			"(CONFIG_DEBUG_INFO_BTF, /sys/kernel/btf/vmlinux): %w", missing)
	}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return unsupported("CAP_BPF and CAP_PERFMON are required: %w", err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.ENOSYS):
		return unsupported("Linux 5.15 or newer is required: %w", err)
	}
	return err
}
