package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// iommuDevice has the number of /dev/iommu. Programs open other nodes with the same number, so
// paths do not identify the device.
const iommuDevice = "/sys/class/misc/iommu/dev"

// iommufdUsers returns the processes with a descriptor of /dev/iommu. The error wraps
// [fs.ErrPermission] if descriptors of a process are not visible.
func iommufdUsers() (pids []int, err error) {
	number, err := os.ReadFile(iommuDevice)
	if errors.Is(err, fs.ErrNotExist) { // a kernel without iommufd
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	dirs, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return nil, err
	}
	return usersOf(dirs, strings.TrimSpace(string(number)))
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
