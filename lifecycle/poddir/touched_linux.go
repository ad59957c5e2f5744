package poddir

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Touched is the information in a pod's touched files.
type Touched struct {
	// StopRequested is true from the pod's stop request until [Dirs.ConfirmStop].
	StopRequested bool

	// Heartbeat is the wall-clock time of the pod's last heartbeat; zero: none. The wall clock may
	// jump, so only a difference from the previous value is meaningful: it means a new heartbeat.
	// Callers measure its age with their own clock.
	Heartbeat time.Time
}

// Touched reads a pod's files. It makes four system calls, follows no symbolic links, and does not
// block, even if the pod changes its files meanwhile. Without a pod directory the error is an
// [io/fs.ErrNotExist].
//
// Any process of the pod can touch the files, so the result is a claim of the pod about itself.
func (d *Dirs) Touched(uid string) (Touched, error) {
	touch, err := d.openTouchDir(uid)
	if err != nil {
		return Touched{}, fmt.Errorf("read the files of pod %s: %w", uid, err)
	}
	defer unix.Close(touch)
	heartbeat, err := touchedAt(touch, heartbeatFile)
	if err != nil {
		return Touched{}, fmt.Errorf("read the files of pod %s: %w", uid, err)
	}
	stop, err := touchedAt(touch, stopFile)
	if err != nil {
		return Touched{}, fmt.Errorf("read the files of pod %s: %w", uid, err)
	}
	return Touched{StopRequested: !stop.IsZero(), Heartbeat: heartbeat}, nil
}

// ConfirmStop confirms to a pod that its VM has ended. It answers all requests so far; a later one
// stays. The caller must ensure that no VM process of the pod runs or can start. Without a
// request the call has no visible effect.
//
// It makes three system calls and does not block. Without a pod directory the error is an
// [io/fs.ErrNotExist].
func (d *Dirs) ConfirmStop(uid string) error {
	touch, err := d.openTouchDir(uid)
	if err != nil {
		return fmt.Errorf("confirm the stop of pod %s: %w", uid, err)
	}
	defer unix.Close(touch)
	if err := resetTime(touch, stopFile); err != nil {
		return fmt.Errorf("confirm the stop of pod %s: %w", uid, err)
	}
	return nil
}

func (d *Dirs) openTouchDir(uid string) (int, error) {
	if err := checkUID(uid); err != nil {
		return -1, err
	}
	return openDir(d.pods, uid+"/"+touchDir, unix.RESOLVE_BENEATH)
}

// touchedAt returns the time at which a pod touched a file; zero: never. A file unfinished by
// Create has no time yet.
func touchedAt(dir int, name string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return time.Time{}, fmt.Errorf("stat %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return time.Time{}, fmt.Errorf("stat %s: %w", name, errForeign)
	}
	if st.Mode == unix.S_IFIFO|unfinishedMode || st.Mtim == (unix.Timespec{}) {
		return time.Time{}, nil
	}
	return time.Unix(st.Mtim.Unix()), nil
}
