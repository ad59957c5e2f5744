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

// maxQueued bounds the queue. The next check of all launchers covers the rest.
const maxQueued = 4096

// Observer counts the guard's results. Its methods must not block and may be called concurrently.
type Observer interface {
	// Checked is called for each checked setting. changed is true if its status changed.
	Checked(setting string, status agentapi.Status, changed bool)

	// CheckDropped is called when the queue is full.
	CheckDropped()
}

// Config configures a guard. Observer is optional.
type Config struct {
	Registry *registry.Registry
	Kernel   host.Kernel
	Recorder registry.Recorder
	Observer Observer
	Logger   *slog.Logger

	// Repair reports whether to raise the memory-lock limit of processes below their launcher's
	// limit. Otherwise, or if it is nil, the guard only reports them.
	Repair func() bool

	// Enforce reports whether the guard may lower limits above the policy's maximum. Otherwise, or
	// if it is nil, the guard only reports them.
	Enforce func() bool

	// Interval is the time between checks of all running launchers, because processes change their
	// own limits and kubelet rewrites cgroup files. 0: only queued launchers are checked.
	Interval time.Duration
}

// Guard compares the settings granted to running launchers with the kernel, writes the result to
// the registry, reports differences, and repairs limits if the policy allows it. It works in its
// own goroutine, so NRI handlers never wait for it.
type Guard struct {
	Config

	mu     sync.Mutex
	queued map[string]bool // container IDs
	order  []string
	wake   chan struct{}

	requirements chan requirement
}

// New returns a guard. Run starts its work.
func New(cfg Config) *Guard {
	return &Guard{Config: cfg, queued: map[string]bool{}, wake: make(chan struct{}, 1),
		requirements: make(chan requirement)}
}

// Enqueue queues a check of the launcher with this container ID, unless it is already queued. It
// does not block and may be called concurrently.
func (g *Guard) Enqueue(containerID string) {
	if !g.push(containerID) {
		g.observeDrop()
		return
	}
	select {
	case g.wake <- struct{}{}:
	default: // Run is already about to wake up
	}
}

// vmChecks are the times of checks after the start of a VM process: at once, and after libvirt and
// virt-handler have had time to set their own limit.
var vmChecks = []time.Duration{0, 200 * time.Millisecond, time.Second, 5 * time.Second}

// EnqueueVM queues checks of a launcher with a new VM process: one now, and several within seconds.
// It does not block.
func (g *Guard) EnqueueVM(containerID string) {
	for _, after := range vmChecks {
		time.AfterFunc(after, func() { g.Enqueue(containerID) })
	}
}

// EnqueueAll queues a check of every running launcher. It does not block.
func (g *Guard) EnqueueAll() {
	for _, l := range g.Registry.List() {
		if l.State == agentapi.StateRunning {
			g.Enqueue(l.Container.ID)
		}
	}
}

// Run checks queued launchers, and those of Require, until ctx is done.
func (g *Guard) Run(ctx context.Context) {
	var round <-chan time.Time
	if g.Interval > 0 {
		ticker := time.NewTicker(g.Interval)
		defer ticker.Stop()
		round = ticker.C
	}
	for ctx.Err() == nil {
		select {
		case r := <-g.requirements:
			g.answer(r)
			continue
		default:
		}
		if id, ok := g.pop(); ok {
			_ = g.check(id, false) // the registry has the result
			continue
		}
		select {
		case <-ctx.Done():
		case r := <-g.requirements:
			g.answer(r)
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
