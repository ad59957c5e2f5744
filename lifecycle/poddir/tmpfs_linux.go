package poddir

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds of the tmpfs for pod directories. A pod directory uses seven inodes, and no space except
// for a bounded report. Pods can use neither.
const (
	tmpfsSize   = "64m"
	tmpfsInodes = "32k"
)

// mountFlags prevent the execution of files and the use of devices in it.
const mountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC

// Mount creates root and mounts a bounded tmpfs at it, unless such a tmpfs is already mounted.
// Another file system at root is an error. It needs CAP_SYS_ADMIN in the mount namespace of the
// container runtime, so it is a separate step before the start of the agent.
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

// isMountPoint compares the device with the parent's.
func isMountPoint(path string) (bool, error) {
	var dir, parent unix.Stat_t
	err := errors.Join(unix.Lstat(path, &dir), unix.Lstat(path+"/..", &parent))
	return dir.Dev != parent.Dev, err
}

// CheckMount returns nil if root is a tmpfs bounded in size and inodes, and mounted nosuid, nodev
// and noexec. Otherwise pods could fill the node's /run or place programs in it. The error names
// the missing properties.
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
		return fmt.Errorf("pod directories at %s: want a tmpfs of their own, mounted %s "+
			"(size=%s, nr_inodes=%s will do)",
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
		{st.Blocks > 0, "with a size"}, // tmpfs reports 0 without a bound
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
