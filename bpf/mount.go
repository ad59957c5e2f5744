package bpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// MountFS mounts a bpf file system at a directory that exists, unless one is mounted there. systemd
// mounts it on most nodes. Nodes that are containers, such as those of kind, lack it. MountFS needs
// CAP_SYS_ADMIN in the node's mount namespace, so it runs before the agent. The source
// distinguishes its mount from others.
func MountFS(source, dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("mount bpf file system at %s: %w", dir, err)
	}
	if stat.Type == unix.BPF_FS_MAGIC {
		return nil
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
	if err := unix.Mount(source, dir, "bpf", flags, "mode=0700"); err != nil {
		return fmt.Errorf("mount bpf file system at %s: %w", dir, err)
	}
	return nil
}
