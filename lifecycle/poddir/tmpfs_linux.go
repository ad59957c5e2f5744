package poddir

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The bounds of the tmpfs that holds the pod directories. A pod directory takes
// seven inodes, and no space but for a bounded report; pods can take neither.
const (
	tmpfsSize   = "64m"
	tmpfsInodes = "32k"
)

// mountFlags keep what pods write from being executed or used as a device.
const mountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Mount mounts a bounded tmpfs at root, and makes the directory if it is
// not there. Where root is such a tmpfs already, nothing is done; where it is
// another file system's mount point, that is an error. It needs CAP_SYS_ADMIN in
// the mount namespace in which containers are started, so it is a step of its
// own, before the agent.
func Mount(root string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("mount pod directories: %w", err)
	}
	mounted, err := isMountPoint(root)
	if err != nil {
		return fmt.Errorf("mount pod directories: %w", err)
	}
	if mounted {
		return CheckMount(root)
	}
	options := "mode=0755,size=" + tmpfsSize + ",nr_inodes=" + tmpfsInodes
	if err := unix.Mount("mooring", root, "tmpfs", mountFlags, options); err != nil {
		return fmt.Errorf("mount tmpfs at %s: %w", root, err)
	}
	return nil
}

// isMountPoint compares with the parent: whatever is mounted is another device.
func isMountPoint(path string) (bool, error) {
	var dir, parent unix.Stat_t
	err := errors.Join(unix.Lstat(path, &dir), unix.Lstat(path+"/..", &parent))
	return dir.Dev != parent.Dev, err
}

// CheckMount returns nil when root is a tmpfs with bounds on size and inodes,
// mounted nosuid, nodev and noexec, so that no pod can fill the node's /run or
// place programs in it. The error names what is missing.
func CheckMount(root string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return fmt.Errorf("pod directories at %s: %w", root, err)
	}
	own, err := isMountPoint(root)
	if err != nil {
		return fmt.Errorf("pod directories at %s: %w", root, err)
	}
	if missing := missingBounds(&st, own); len(missing) > 0 {
		return fmt.Errorf("pod directories at %s: want a tmpfs of their own, mounted %s (size=%s, nr_inodes=%s will do)",
			root, strings.Join(missing, ", "), tmpfsSize, tmpfsInodes)
	}
	return nil
}

func missingBounds(st *unix.Statfs_t, own bool) []string {
	var missing []string
	for _, want := range []struct {
		ok   bool
		name string
	}{
		{own, "there"},
		{st.Type == unix.TMPFS_MAGIC, "with type tmpfs"},
		{st.Blocks > 0, "with a size"}, // tmpfs reports 0 for what has no bound
		{st.Files > 0, "with nr_inodes"},
		{st.Flags&unix.ST_NOSUID != 0, "nosuid"},
		{st.Flags&unix.ST_NODEV != 0, "nodev"},
		{st.Flags&unix.ST_NOEXEC != 0, "noexec"},
	} {
		if !want.ok {
			missing = append(missing, want.name)
		}
	}
	return missing
}
