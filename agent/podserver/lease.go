package podserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// leaseTimeout is the longest wait of a pod for its lease.
const leaseTimeout = 3 * time.Second

// Leases sets the leases of launchers: see admin.Leases and [supervisor.Supervisor]. LeasePod sets
// the pod's own lease.
type Leases interface {
	Lease(ctx context.Context, namespace, pod string, period time.Duration,
		reason string) (launchers int, err error)
	LeasePod(ctx context.Context, uid string, period time.Duration, reason string) (launchers int,
		err error)
}

// LeasesUnlessHeld returns leases that do not start during a resize of the VM; the error then wraps
// [ErrHeld]. An existing lease can change and end. The pods' own leases use the result, too, so the
// caller must call this method before a pod's first request.
func (n *Node) LeasesUnlessHeld(leases Leases) Leases {
	n.leases = &heldLeases{n, leases}
	return n.leases
}

// Lease implements [Pod]. It marks the reason as the pod's own words.
func (p *pod) Lease(ctx context.Context, d time.Duration, reason string) error {
	if p.node.leases == nil {
		return refusal(podapi.CodeNoVM, "the node's kernel cannot track VM processes")
	}
	if d > 0 {
		if _, err := p.launcher(); err != nil {
			return err
		}
		d, reason = min(d, podapi.MaxLease), reason+" (in the pod's own words)"
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	n, err := p.node.leases.LeasePod(ctx, p.uid, d, reason)
	switch {
	case errors.Is(err, ErrHeld):
		return refusal(podapi.CodeHeld, "%v", err)
	case err == nil && d > 0 && n == 0:
		return refusal(podapi.CodeNoVM, "no launcher of the pod runs")
	}
	return err
}

type heldLeases struct {
	node   *Node
	leases Leases
}

// Lease implements [Leases].
func (h *heldLeases) Lease(
	ctx context.Context, namespace, name string, period time.Duration, reason string,
) (int, error) {
	named := func(ref agentapi.PodRef) bool {
		return ref.Namespace == namespace && ref.Name == name
	}
	return h.setUnlessHeld(named, period, func() (int, error) {
		return h.leases.Lease(ctx, namespace, name, period, reason)
	})
}

// LeasePod implements [Leases].
func (h *heldLeases) LeasePod(
	ctx context.Context, uid string, period time.Duration, reason string,
) (int, error) {
	own := func(ref agentapi.PodRef) bool { return ref.UID == uid }
	return h.setUnlessHeld(own, period, func() (int, error) {
		return h.leases.LeasePod(ctx, uid, period, reason)
	})
}

// setUnlessHeld sets the lease of the selected pods, unless a resize of one of their VMs is under
// way. Meanwhile no hold starts.
func (h *heldLeases) setUnlessHeld(
	of func(agentapi.PodRef) bool, period time.Duration, set func() (int, error),
) (int, error) {
	if period <= 0 {
		return set()
	}
	var begun []*pod
	defer func() {
		for _, p := range begun {
			p.addLeasing(-1)
		}
	}()
	for _, l := range h.node.Registry.List() {
		if !of(l.Pod) {
			continue
		}
		p := h.node.pod(l.Pod.UID)
		if err := p.startLease(); err != nil {
			return 0, fmt.Errorf("lease for pod %s/%s: %w", l.Pod.Namespace, l.Pod.Name, err)
		}
		begun = append(begun, p)
	}
	return set()
}

// startLease counts a starting lease, or returns an error during a hold. A hold does not start
// while a lease exists.
func (p *pod) startLease() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := time.Until(p.heldUntil); left > 0 {
		return fmt.Errorf("%w, for at most %s more", ErrHeld, left.Round(time.Second))
	}
	p.startingLeases++
	return nil
}

func (p *pod) addLeasing(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startingLeases += n
}
