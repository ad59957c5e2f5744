package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/lifecycle"
)

// startPatience is how long an agent may take from its start to its first sign of
// life. One that hangs before is away, although it lives.
const startPatience = asideTimeout + provenAfter + 5*time.Second

// absence is how long no agent has given a sign of life, as far as somebody has
// looked. Only changes of a file's time count, and how long ago they were seen: the
// node's clock may be set.
type absence struct {
	clock       lifecycle.Clock
	sign, start touched
}

// touched is a file that others touch.
type touched struct {
	path string
	last time.Time
	at   lifecycle.Boottime // when it was seen to change
}

func newAbsence(root string, clock lifecycle.Clock) *absence {
	now := clock.Now()
	return &absence{
		clock: clock,
		sign:  touched{path: filepath.Join(root, aliveFile), at: now},
		start: touched{path: filepath.Join(root, startFile), at: now},
	}
}

// look returns how long the agent has been away, and whether one is about to come: it
// has started a while ago, and lives. A file that is not there is no sign.
func (a *absence) look() (away time.Duration, coming bool) {
	now := a.clock.Now()
	a.sign.look(now)
	a.start.look(now)
	if now.Sub(a.start.at) <= startPatience {
		coming, _ = lockHeld(a.start.path) // no answer is no sign
	}
	return now.Sub(a.sign.at), coming
}

func (t *touched) look(now lifecycle.Boottime) {
	if info, err := os.Stat(t.path); err == nil && !info.ModTime().Equal(t.last) {
		t.last, t.at = info.ModTime(), now
	}
}

// never reports whether no agent has given a sign of life since the node booted.
func (a *absence) never() bool {
	_, err := os.Stat(a.sign.path)
	return errors.Is(err, fs.ErrNotExist)
}
