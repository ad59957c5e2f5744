package guard

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// maxQueued bounds the containers that wait for a check. What does not fit is
// checked with the next round of all.
const maxQueued = 4096

// Observer counts what the guard finds. Its methods must not block and may
// be called from several goroutines at once.
type Observer interface {
	// Checked is called for each setting that was looked at. changed says
	// that it fared otherwise than at the last check.
	Checked(setting string, status agentapi.Status, changed bool)

	// CheckDropped is called when too many checks are waiting.
	CheckDropped()
}

// Config is what a guard works with. Observer is optional.
type Config struct {
	Registry *registry.Registry
	Kernel   host.Kernel
	Recorder registry.Recorder
	Observer Observer
	Logger   *slog.Logger

	// Repair raises the memory lock of processes that have less than their
	// launcher was given. Otherwise that is only told.
	Repair bool

	// Interval is the time between two checks of all running launchers: their
	// processes may change their own limits, and kubelet rewrites cgroup
	// files. 0: launchers are checked only when they are enqueued.
	Interval time.Duration
}

// Guard compares what running launchers were given with what the kernel shows,
// records it in the registry, tells of differences, and repairs what it may. It
// works in one goroutine of its own, so that NRI handlers never wait for it.
type Guard struct {
	Config

	mu     sync.Mutex
	queued map[string]bool // container IDs
	order  []string
	wake   chan struct{}
}

// New returns a guard that does nothing until Run is called.
func New(cfg Config) *Guard {
	return &Guard{Config: cfg, queued: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// Enqueue asks for a check of the launcher with this container ID. It does not
// block; a container that waits already is not added again. It may be called from
// several goroutines at once.
func (g *Guard) Enqueue(containerID string) {
	if !g.push(containerID) {
		g.observeDrop()
		return
	}
	select {
	case g.wake <- struct{}{}:
	default: // Run is to wake up anyway
	}
}

// vmChecks is when a VM process is checked after its start: at once, and after those
// who manage it have had time to set another limit.
var vmChecks = []time.Duration{0, 200 * time.Millisecond, time.Second, 5 * time.Second}

// EnqueueVM asks for checks of a launcher of which a VM process has just started: now,
// and several times in the seconds to come. It does not block.
func (g *Guard) EnqueueVM(containerID string) {
	for _, after := range vmChecks {
		time.AfterFunc(after, func() { g.Enqueue(containerID) })
	}
}

// EnqueueAll asks for a check of every running launcher. It does not block.
func (g *Guard) EnqueueAll() {
	for _, l := range g.Registry.List() {
		if l.State == agentapi.StateRunning {
			g.Enqueue(l.Container.ID)
		}
	}
}

// Run checks what is enqueued until ctx is done.
func (g *Guard) Run(ctx context.Context) {
	var round <-chan time.Time
	if g.Interval > 0 {
		ticker := time.NewTicker(g.Interval)
		defer ticker.Stop()
		round = ticker.C
	}
	for ctx.Err() == nil {
		if id, ok := g.pop(); ok {
			g.check(id)
			continue
		}
		select {
		case <-ctx.Done():
		case <-g.wake:
		case <-round:
			g.EnqueueAll()
		}
	}
}

func (g *Guard) push(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queued[id] {
		return true
	}
	if len(g.order) >= maxQueued {
		return false
	}
	g.queued[id] = true
	g.order = append(g.order, id)
	return true
}

func (g *Guard) pop() (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.order) == 0 {
		return "", false
	}
	id := g.order[0]
	g.order = g.order[1:]
	delete(g.queued, id)
	return id, true
}

func (g *Guard) observeDrop() {
	if g.Observer != nil {
		g.Observer.CheckDropped()
	}
}

func (g *Guard) observe(setting string, status agentapi.Status, changed bool) {
	if g.Observer != nil {
		g.Observer.Checked(setting, status, changed)
	}
}
