package poddir

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Touched is what a pod tells by touching its files.
type Touched struct {
	// StopRequested is set from the pod's request to stop its VM until
	// [Dirs.ConfirmStop].
	StopRequested bool

	// Heartbeat is the time of the pod's last heartbeat, by the wall clock of that
	// moment; zero: there was none. The clock may have been stepped since, so all
	// that it says is whether there was another heartbeat: the one who looks
	// compares it with what it saw before, and goes by a clock of its own.
	Heartbeat time.Time
}

// Touched reads what a pod has told. It makes four system calls, follows no symbolic
// links and does not block, whatever the pod does with its files. Where the pod has
// no directory, the error is an [io/fs.ErrNotExist].
//
// Any process of the pod can touch the files: a sign is a claim of the pod about
// itself.
func (d *Dirs) Touched(uid string) (Touched, error) {
	touch, err := d.openTouchDir(uid)
	if err != nil {
		return Touched{}, fmt.Errorf("signs of pod %s: %w", uid, err)
	}
	defer unix.Close(touch)
	heartbeat, err := touchedAt(touch, heartbeatFile)
	if err != nil {
		return Touched{}, fmt.Errorf("signs of pod %s: %w", uid, err)
	}
	stop, err := touchedAt(touch, stopFile)
	if err != nil {
		return Touched{}, fmt.Errorf("signs of pod %s: %w", uid, err)
	}
	return Touched{StopRequested: !stop.IsZero(), Heartbeat: heartbeat}, nil
}

// ConfirmStop tells a pod that no VM of it runs. It answers every request that the
// pod has made so far; one that is made later is another request, and stays. So it is
// to be called while no VM process of the pod runs and none may start. Without a
// request it changes nothing that the pod would notice.
//
// It makes three system calls and does not block. Where the pod has no directory, the
// error is an [io/fs.ErrNotExist].
func (d *Dirs) ConfirmStop(uid string) error {
	touch, err := d.openTouchDir(uid)
	if err != nil {
		return fmt.Errorf("confirm the stop of pod %s: %w", uid, err)
	}
	defer unix.Close(touch)
	if err := untouch(touch, stopFile); err != nil {
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

// touchedAt returns when a pod touched a file, the zero time where it did not. A file
// that Create has not finished has no time yet.
func touchedAt(dir int, name string) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return time.Time{}, fmt.Errorf("look at %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return time.Time{}, fmt.Errorf("look at %s: %w", name, errForeign)
	}
	if st.Mode == unix.S_IFIFO|unfinishedMode || st.Mtim == (unix.Timespec{}) {
		return time.Time{}, nil
	}
	return time.Unix(st.Mtim.Unix()), nil
}
