// Package clonetest starts processes in ways that os/exec lacks, for tests of process identity.
// Only tests and their programs use it.
package clonetest

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Forever as a code makes the child wait until a signal kills it.
const Forever = -1

// Child is a fork of this program. It exits at once or waits for a signal.
type Child struct {
	Flags  uint64      // of clone3(2)
	Signal unix.Signal // sent to the parent at exit; 0 for none
	Cgroup *os.File    // directory of its cgroup (v2); nil for this program's cgroup
	Number int         // process number in this program's pid namespace; 0: the kernel chooses
	Code   int         // exit code, or Forever
}

// Start starts the child and returns its number. The error wraps that of clone3(2): EEXIST while
// another process has the number, zombies included, EPERM without CAP_CHECKPOINT_RESTORE or
// CAP_SYS_ADMIN over the namespace. It does not block. The child consists of the calling thread
// alone, so it cannot run Go code.
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

// clone forks this thread by clone3.
func clone(args *cloneArgs, code int) (int, unix.Errno) {
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)),
		unsafe.Sizeof(*args), 0)
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
