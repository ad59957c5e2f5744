package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// iommuClass has the number of /dev/iommu. Programs open other nodes with the same number, so paths
// do not identify the device.
const iommuClass = "/sys/class/misc/iommu"

// IOMMUFDUsers returns the processes with a descriptor of /dev/iommu. The error wraps
// [fs.ErrPermission] if descriptors of a process are not visible. Other users' descriptors need
// CAP_SYS_PTRACE.
func IOMMUFDUsers() (pids []int, err error) {
	number, err := numberOf(os.DirFS(iommuClass))
	if err != nil || number == "" {
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return nil, err
	}
	return usersOf(dirs, number)
}

// HasIOMMUFD reports whether a process has a descriptor of /dev/iommu. The error wraps
// [fs.ErrPermission] as for [IOMMUFDUsers]. [ErrGone] after the end of the process.
func (k *LinuxKernel) HasIOMMUFD(p Process) (bool, error) {
	number, err := numberOf(os.DirFS(iommuClass))
	if err != nil || number == "" {
		return false, err
	}
	return k.hasDevice(p, number)
}

func (k *LinuxKernel) hasDevice(p Process, device string) (bool, error) {
	dir := filepath.Join(k.proc, strconv.Itoa(p.PID), "fd")
	open, err := hasDevice(dir, device)
	if gone := k.verify(p); gone != nil {
		return false, gone
	}
	if err != nil {
		return false, fmt.Errorf("descriptors of process %d: %w", p.PID, err)
	}
	return open, nil
}

// numberOf returns the number of a device, such as 10:127, from its directory in /sys/class. It is
// empty if the kernel has no such device.
func numberOf(class fs.FS) (string, error) {
	number, err := fs.ReadFile(class, "dev")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(number)), err
}

// usersOf returns the processes that have a descriptor of a character device, such as 10:127, in
// these directories, such as /proc/1/fd.
func usersOf(dirs []string, device string) (pids []int, err error) {
	for _, dir := range dirs {
		open, err := hasDevice(dir, device)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil, fmt.Errorf("descriptors of processes: %w", err)
		case err != nil || !open: // the process has ended
			continue
		}
		var pid int
		_, _ = fmt.Sscanf(dir, "/proc/%d/", &pid) // Glob has found digits there
		pids = append(pids, pid)
	}
	return pids, nil
}

// hasDevice reports whether a directory of descriptors has the character device. It asks no server
// of a network file system, which could block.
func hasDevice(dir, device string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		var st unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, filepath.Join(dir, e.Name()), unix.AT_STATX_DONT_SYNC,
			unix.STATX_TYPE, &st)
		if errors.Is(err, fs.ErrPermission) {
			return false, err
		}
		if err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR &&
			fmt.Sprintf("%d:%d", st.Rdev_major, st.Rdev_minor) == device {
			return true, nil
		}
	}
	return false, nil
}
