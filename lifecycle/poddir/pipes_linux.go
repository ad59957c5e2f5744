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
	// unfinishedMode excludes pods until the mtime is set. The umask does not change it.
	unfinishedMode = 0o600
	mountPointMode = 0o444
)

// errForeign reports an object in a pod directory that Create did not make.
var errForeign = errors.New("of another type than Mooring makes")

// isForeign reports whether an error means a wrong type of object in place of a directory or file.
func isForeign(err error) bool {
	return slices.ContainsFunc([]error{errForeign, unix.ENOTDIR, unix.EISDIR, unix.ELOOP,
		unix.ENXIO}, func(target error) bool {
		return errors.Is(err, target)
	})
}

// ensureTouchable creates a named pipe that every user may touch, with the epoch as its mtime for
// never touched. An existing one keeps its mtime, unless the agent died while it created the pipe.
func ensureTouchable(dir int, name string) error {
	err := unix.Mknodat(dir, name, unix.S_IFIFO|unfinishedMode, 0)
	switch {
	case err == nil:
		return finishNew(dir, name)
	case errors.Is(err, unix.EEXIST):
		return repairTouchable(dir, name)
	}
	return fmt.Errorf("make %s: %w", name, err)
}

// finishNew makes a new pipe touchable. Only root can write to the directory, so the name still
// means the new pipe.
func finishNew(dir int, name string) error {
	if err := resetTime(dir, name); err != nil {
		return err
	}
	if err := unix.Fchmodat(dir, name, touchableMode, 0); err != nil {
		return fmt.Errorf("chmod %s: %w", name, err)
	}
	return nil
}

// repairTouchable checks an existing pipe, and finishes it if necessary.
func repairTouchable(dir int, name string) error {
	fd, mode, err := openPipe(dir, name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	if mode == touchableMode {
		return nil
	}
	if mode == unfinishedMode {
		if err := resetTime(dir, name); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(fd, touchableMode); err != nil {
		return fmt.Errorf("chmod %s: %w", name, err)
	}
	return nil
}

// resetTime sets the time of a file to the epoch.
func resetTime(dir int, name string) error {
	if err := unix.UtimesNanoAt(dir, name, make([]unix.Timespec, 2),
		unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set the time of %s: %w", name, err)
	}
	return nil
}

// ensureMountPoint creates an empty read-only file.
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
	if err := unix.Fchmod(fd, mountPointMode); err != nil { // because of the umask of open
		return fmt.Errorf("chmod %s: %w", name, err)
	}
	return nil
}

// openPipe opens a named pipe without blocking, and returns its permissions.
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
