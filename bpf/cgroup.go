package bpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// CgroupID returns the id of the cgroup v2 at path: the inode number of its directory. The kernel
// does not reuse an id before a reboot.
func CgroupID(path string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, fmt.Errorf("cgroup %s: %w", path, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return 0, fmt.Errorf("%s is not in a cgroup v2 file system", path)
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, fmt.Errorf("cgroup %s: %w", path, err)
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, fmt.Errorf("%s is not the directory of a cgroup", path)
	}
	return stat.Ino, nil
}
