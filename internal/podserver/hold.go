package podserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// ErrHeld says that a lease cannot begin, because a VM is being resized.
var ErrHeld = errors.New("its VM is being resized")

// Hold implements [Pod]. A lease says that somebody else is at work on the VM, such as a
// migration: each keeps the other from beginning.
func (p *pod) Hold(d time.Duration) error {
	if d <= 0 {
		p.hold(time.Time{})
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.launcher() // with a lease that has begun before
	if err != nil {
		return err
	}
	if lease := l.Lease; lease != nil && time.Now().Before(lease.Until) {
		return refused(podapi.CodeMigrating, "a lease holds until %s for: %s", lease.Until.UTC().Format(time.RFC3339), lease.Reason)
	}
	if p.leasing > 0 {
		return refused(podapi.CodeMigrating, "a lease is beginning")
	}
	p.held = time.Now().Add(min(d, podapi.MaxHold))
	return nil
}

func (p *pod) hold(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = until
}

// Leases are those of the node's VM processes: see admin.Leases.
type Leases interface {
	Lease(ctx context.Context, namespace, pod string, period time.Duration, reason string) (launchers int, err error)
}

// Holding returns leases that do not begin while a pod's VM is being resized; the error
// wraps [ErrHeld] then. One that there is already can be changed, and ends.
func (n *Node) Holding(leases Leases) Leases { return &holding{n, leases} }

type holding struct {
	node   *Node
	leases Leases
}

// Lease implements [Leases].
func (h *holding) Lease(ctx context.Context, namespace, name string, period time.Duration, reason string) (int, error) {
	if period <= 0 {
		return h.leases.Lease(ctx, namespace, name, period, reason)
	}
	var begun []*pod
	defer func() {
		for _, p := range begun {
			p.leased(-1)
		}
	}()
	for _, l := range h.node.Registry.List() {
		if l.Pod.Namespace != namespace || l.Pod.Name != name || leased(l.Launcher) {
			continue
		}
		p := h.node.pod(l.Pod.UID)
		if err := p.begin(); err != nil {
			return 0, fmt.Errorf("lease for pod %s/%s: %w", namespace, name, err)
		}
		begun = append(begun, p)
	}
	return h.leases.Lease(ctx, namespace, name, period, reason)
}

func leased(l agentapi.Launcher) bool { return l.Lease != nil && time.Now().Before(l.Lease.Until) }

// begin notes that a lease is about to hold, unless the VM is being resized.
func (p *pod) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.held); left > 0 {
		return fmt.Errorf("%w, for at most %s more", ErrHeld, left.Round(time.Second))
	}
	p.leasing++
	return nil
}

func (p *pod) leased(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leasing += n
}
