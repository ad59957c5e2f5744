package poddir

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// The files that a pod may touch. Their mtime is the message.
const (
	heartbeatFile = "heartbeat"
	stopFile      = "stop"
)

const (
	touchableMode = 0o666
	// unfinishedMode keeps pods out until the mtime is set. The umask, which
	// belongs to the whole process, leaves it alone.
	unfinishedMode = 0o600
	mountPointMode = 0o444
)

// errForeign says that a pod directory has something of another type than Create
// makes.
var errForeign = errors.New("of another type than Mooring makes")

// isForeign reports whether something of another type is in the place of a
// directory or of a file to touch.
func isForeign(err error) bool {
	return slices.ContainsFunc([]error{errForeign, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.ENXIO}, func(target error) bool {
		return errors.Is(err, target)
	})
}

// ensureTouchable makes a named pipe that everybody may touch, with the epoch as
// its mtime: never touched. One that is there keeps its mtime, unless the agent
// died while it made it.
func ensureTouchable(dir int, name string) error {
	if err := unix.Mknodat(dir, name, unix.S_IFIFO|unfinishedMode, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", name, err)
	}
	fd, mode, err := openPipe(dir, name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if mode == touchableMode {
		return nil
	}
	if mode == unfinishedMode {
		if err := untouch(dir, name); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, touchableMode); err != nil {
		return fmt.Errorf("chmod %s: %w", name, err)
	}
	return nil
}

// untouch sets the time of a file to the epoch.
func untouch(dir int, name string) error {
	if err := unix.UtimesNanoAt(dir, name, make([]unix.Timespec, 2), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set the time of %s: %w", name, err)
	}
	return nil
}

// ensureMountPoint makes an empty file that nobody may write.
func ensureMountPoint(dir int, name string) error {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CREAT | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Mode:    mountPointMode,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("open %s: %w", name, errForeign)
	case st.Mode == unix.S_IFREG|mountPointMode:
		return nil
	}
	if err := unix.Fchmod(fd, mountPointMode); err != nil { // open is subject to the umask
		return fmt.Errorf("chmod %s: %w", name, err)
	}
	return nil
}

// openPipe opens a named pipe, for which it waits for nobody, and returns its
// permissions.
func openPipe(dir int, name string) (fd int, mode uint32, err error) {
	fd, err = unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDWR | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO {
		err = errForeign
	}
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, st.Mode &^ unix.S_IFMT, nil
}
