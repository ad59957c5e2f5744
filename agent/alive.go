package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/lifecycle"
)

const (
	// aliveFile is touched by an agent that has worked for a while, and startFile
	// once by each that begins to, and locked while it lives. The fence looks at
	// both, and locks fenceFile while it acts.
	aliveFile = "alive"
	startFile = "agent.lock"
	fenceFile = "fence.lock"

	// provenAfter is how long a supervisor has to work before it gives signs of
	// life: an agent that ends before that, over and over, is away.
	provenAfter = 5 * time.Second

	// asideTimeout is how long a fence that acts may take to step aside.
	asideTimeout = 10 * time.Second
	asidePeriod  = 20 * time.Millisecond
)

// alive is the sign of life of this agent. Only its supervisor gives it: without one
// nobody looks after VM processes, and the fence should.
type alive struct {
	root   string
	logger *slog.Logger
	clock  lifecycle.Clock
	warned sync.Once

	lock  *os.File           // nil before begin
	since lifecycle.Boottime // when the supervisor has begun to work; 0: it has not
}

func newAlive(root string, clock lifecycle.Clock, logger *slog.Logger) *alive {
	return &alive{root: root, clock: clock, logger: logger}
}

// begin has a fence that acts step aside, and waits for that: what two do at once is
// done twice.
func (a *alive) begin(ctx context.Context) {
	path := filepath.Join(a.root, startFile)
	lock, err := holdLock(path)
	if err == nil {
		a.lock = lock // first: a sign of who does not live is void
		err = touchFile(path)
	}
	a.warn(err)
	a.awaitFence(ctx)
}

// back is called by a supervisor that has hung: a fence may have acted for it.
func (a *alive) back(ctx context.Context) {
	a.worked()
	a.awaitFence(ctx)
}

// awaitFence waits until no fence acts. One that hangs is not waited for.
func (a *alive) awaitFence(ctx context.Context) {
	gone := func(context.Context) (bool, error) {
		held, err := lockHeld(filepath.Join(a.root, fenceFile))
		return !held, err
	}
	err := wait.PollUntilContextTimeout(ctx, asidePeriod, asideTimeout, true, gone)
	if err != nil && ctx.Err() == nil {
		a.logger.Warn("the fence does not step aside; the agent goes on beside it", "error", err)
	}
}

// worked is called every so often by a supervisor that works.
func (a *alive) worked() {
	now := a.clock.Now()
	if a.since == 0 {
		a.since = now
	}
	if now.Sub(a.since) >= provenAfter {
		a.warn(touchFile(filepath.Join(a.root, aliveFile)))
	}
}

func (a *alive) warn(err error) {
	if err != nil {
		a.warned.Do(func() { a.logger.Warn("the fence sees no sign of life of this agent", "error", err) })
	}
}

// close tells the fence that this agent supervises no more.
func (a *alive) close() error {
	if a.lock == nil {
		return nil
	}
	return a.lock.Close()
}

// touchFile gives a file the present time, and makes it.
func touchFile(path string) error {
	now := time.Now()
	err := os.Chtimes(path, now, now)
	if errors.Is(err, os.ErrNotExist) {
		return os.WriteFile(path, nil, 0o600)
	}
	return err
}
