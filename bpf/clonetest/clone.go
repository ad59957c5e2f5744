// Package clonetest starts processes in ways that os/exec has not, for tests of what
// tells processes apart. Only tests and their programs use it.
package clonetest

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Forever is the code of a child that does not end by itself.
const Forever = -1

// Child is a fork of this program that does nothing: it ends at once, or waits to be
// killed.
type Child struct {
	Flags  uint64      // of clone3(2)
	Signal unix.Signal // that its end sends to the parent; 0 for none
	Cgroup *os.File    // the directory of the cgroup (v2) that it is born in; nil for this program's
	Number int         // its process number in this program's namespace; 0 lets the kernel choose
	Code   int         // that it ends with, or Forever
}

// Start makes the child and returns its number. The error wraps that of clone3(2):
// EEXIST while another process has the number, zombies included, EPERM without
// CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN over the namespace. It does not block. The
// child is the calling thread alone, which is why it cannot run code of Go's.
func (c Child) Start() (pid int, err error) {
	args := cloneArgs{flags: c.Flags, exitSignal: uint64(c.Signal)}
	if c.Cgroup != nil {
		args.flags |= unix.CLONE_INTO_CGROUP
		args.cgroup = uint64(c.Cgroup.Fd())
	}
	number := int32(c.Number)
	var pinner runtime.Pinner
	pinner.Pin(&number)
	defer pinner.Unpin()
	if number != 0 {
		args.setTID, args.setTIDSize = uint64(uintptr(unsafe.Pointer(&number))), 1
	}
	pid, errno := clone(&args, c.Code)
	runtime.KeepAlive(c.Cgroup)
	if errno != 0 {
		return 0, fmt.Errorf("start a process with number %d (0: any): %w", c.Number, errno)
	}
	return pid, nil
}

// cloneArgs is struct clone_args of clone3(2).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	setTID, setTIDSize, cgroup                                           uint64
}

// clone is fork by clone3, of this thread.
func clone(args *cloneArgs, code int) (int, unix.Errno) {
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args), 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	for {
		if code != Forever {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT, uintptr(code), 0, 0)
		}
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
