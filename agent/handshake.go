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

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// Agent and fence must not stop VM processes at the same time. They agree through three files in
// the agent's tmpfs:
//
//	alive       the agent touches it every second, once its supervisor has proven itself
//	agent.lock  a starting agent touches it, and keeps it locked until it ends
//	fence.lock  the fence keeps it locked while it acts
//
// Each side first raises its own flag and then checks the other's. An agent that starts locks
// agent.lock, and then waits until fence.lock is free. A fence locks fence.lock, and then checks
// for a starting agent. docs/adr/0022-the-fence-handshake.md says why fewer files do not suffice.
const (
	aliveFile     = "alive"
	agentLockFile = "agent.lock"
	fenceLockFile = "fence.lock"

	// provenAfter is the working time of a supervisor before the agent touches aliveFile. An agent
	// that crashes over and over stays below it, and counts as away.
	provenAfter = 5 * time.Second

	// stepAsideTimeout bounds the wait of an agent for an acting fence.
	stepAsideTimeout = 10 * time.Second
	stepAsidePoll    = 20 * time.Millisecond

	// startGrace is the longest time between the start of an agent and its first touch of
	// aliveFile. An agent that hangs for longer counts as away.
	startGrace = stepAsideTimeout + provenAfter + 5*time.Second
)

// presence is the agent's side of the handshake. Only the supervisor shows the agent's
// presence: without a supervisor, the fence has to act.
type presence struct {
	root   string
	logger *slog.Logger
	clock  host.Clock
	warned sync.Once

	lock         *os.File      // nil before announce
	workingSince host.Boottime // first call of confirm; 0: none yet
}

func newPresence(root string, clock host.Clock, logger *slog.Logger) *presence {
	return &presence{root: root, clock: clock, logger: logger}
}

// announce makes an acting fence step aside, and waits until it has done so. Otherwise agent and
// fence would do the same work twice.
func (p *presence) announce(ctx context.Context) {
	path := filepath.Join(p.root, agentLockFile)
	lock, err := holdLock(path)
	if err == nil {
		p.lock = lock // before the touch: the fence ignores a touch without the lock
		err = touchFile(path)
	}
	p.warn(err)
	p.awaitFence(ctx)
}

// resume must be called by a supervisor that hung: the fence may have acted meanwhile.
func (p *presence) resume(ctx context.Context) {
	p.confirm()
	p.awaitFence(ctx)
}

// awaitFence waits until no fence acts, at most for stepAsideTimeout.
func (p *presence) awaitFence(ctx context.Context) {
	free := func(context.Context) (bool, error) {
		held, err := lockHeld(filepath.Join(p.root, fenceLockFile))
		return !held, err
	}
	err := wait.PollUntilContextTimeout(ctx, stepAsidePoll, stepAsideTimeout, true, free)
	if err != nil && ctx.Err() == nil {
		p.logger.Warn("the fence does not step aside; the agent continues beside it", "error", err)
	}
}

// confirm touches aliveFile once the supervisor has worked for provenAfter. A working
// supervisor must call it about once a second.
func (p *presence) confirm() {
	now := p.clock.Now()
	if p.workingSince == 0 {
		p.workingSince = now
	}
	if now.Sub(p.workingSince) >= provenAfter {
		p.warn(touchFile(filepath.Join(p.root, aliveFile)))
	}
}

func (p *presence) warn(err error) {
	if err != nil {
		p.warned.Do(func() { p.logger.Warn("the fence cannot detect this agent", "error", err) })
	}
}

// close shows the fence that this agent no longer supervises VM processes.
func (p *presence) close() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

// touchFile sets the times of a file to the present. It creates a missing file.
func touchFile(path string) error {
	now := time.Now()
	err := os.Chtimes(path, now, now)
	if errors.Is(err, os.ErrNotExist) {
		return os.WriteFile(path, nil, 0o600)
	}
	return err
}

// absence is the fence's side of the handshake: it measures how long the agent has been away. It
// reacts to changes of modification times, and takes the time of each change from its own clock: an
// operator may set the node's clock.
type absence struct {
	clock          host.Clock
	alive, started watchedFile
}

// watchedFile is a file that the agent touches.
type watchedFile struct {
	path      string
	modTime   time.Time
	changedAt host.Boottime // when the fence observed the last change
}

func newAbsence(root string, clock host.Clock) *absence {
	now := clock.Now()
	return &absence{
		clock:   clock,
		alive:   watchedFile{path: filepath.Join(root, aliveFile), changedAt: now},
		started: watchedFile{path: filepath.Join(root, agentLockFile), changedAt: now},
	}
}

// observe returns the time since the last touch of aliveFile. starting reports whether an
// agent runs that has started less than startGrace ago.
func (a *absence) observe() (away time.Duration, starting bool) {
	now := a.clock.Now()
	a.alive.refresh(now)
	a.started.refresh(now)
	if now.Sub(a.started.changedAt) <= startGrace {
		starting, _ = lockHeld(a.started.path) // an unreadable lock is no evidence of an agent
	}
	return now.Sub(a.alive.changedAt), starting
}

func (f *watchedFile) refresh(now host.Boottime) {
	if info, err := os.Stat(f.path); err == nil && !info.ModTime().Equal(f.modTime) {
		f.modTime, f.changedAt = info.ModTime(), now
	}
}

// neverPresent reports whether no agent has proven itself since the node booted.
func (a *absence) neverPresent() bool {
	_, err := os.Stat(a.alive.path)
	return errors.Is(err, fs.ErrNotExist)
}
