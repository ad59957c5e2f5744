package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/lifecycle"
)

const (
	// aliveFile is touched by every agent; the fence looks at it.
	aliveFile = "alive"

	// aliveEvery is how often an agent without a supervisor touches it.
	aliveEvery = time.Second / 2
)

// alive is the sign of life of this agent.
type alive struct {
	path   string
	logger *slog.Logger
	once   sync.Once
}

// touch gives a sign of life.
func (a *alive) touch() {
	now := time.Now()
	err := os.Chtimes(a.path, now, now)
	if os.IsNotExist(err) {
		err = os.WriteFile(a.path, nil, 0o600)
	}
	if err != nil {
		a.once.Do(func() { a.logger.Warn("the fence sees no sign of life of this agent", "error", err) })
	}
}

// stay gives signs of life until ctx is done, for an agent that supervises nothing:
// one that does has its supervisor give them, which shows that its loop works.
func (a *alive) stay(ctx context.Context) {
	ticks := time.NewTicker(aliveEvery)
	defer ticks.Stop()
	for {
		a.touch()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// absence is how long no agent has given a sign of life, as far as somebody has
// looked. Only changes of the file's time count, and how long ago they were seen: the
// node's clock may be set.
type absence struct {
	path  string
	clock lifecycle.Clock
	last  time.Time
	since lifecycle.Boottime
}

func newAbsence(root string, clock lifecycle.Clock) *absence {
	return &absence{path: filepath.Join(root, aliveFile), clock: clock, since: clock.Now()}
}

// look returns how long the agent has been away. A file that is not there is no sign
// of life.
func (a *absence) look() time.Duration {
	info, err := os.Stat(a.path)
	if err == nil && !info.ModTime().Equal(a.last) {
		a.last, a.since = info.ModTime(), a.clock.Now()
	}
	return a.clock.Now().Sub(a.since)
}

// never reports whether no agent has given a sign of life since the node booted.
func (a *absence) never() bool {
	_, err := os.Stat(a.path)
	return errors.Is(err, fs.ErrNotExist)
}
