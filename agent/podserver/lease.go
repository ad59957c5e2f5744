package podserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// leaseTimeout is how long a pod waits for its lease to hold.
const leaseTimeout = 3 * time.Second

// Leases are those of the node's VM processes: see admin.Leases and
// [supervisor.Supervisor]. LeasePod is of a pod's own.
type Leases interface {
	Lease(ctx context.Context, namespace, pod string, period time.Duration, reason string) (launchers int, err error)
	LeasePod(ctx context.Context, uid string, period time.Duration, reason string) (launchers int, err error)
}

// Holding returns leases that do not begin while a pod's VM is being resized; the error
// wraps [ErrHeld] then. One that there is already can be changed, and ends. Pods take
// theirs there, too: to be called before any is answered.
func (n *Node) LeasesUnlessHeld(leases Leases) Leases {
	n.leases = &heldLeases{n, leases}
	return n.leases
}

// Lease implements [Pod]. The agent tells people whose words the reason is.
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
func (h *heldLeases) Lease(ctx context.Context, namespace, name string, period time.Duration, reason string) (int, error) {
	named := func(ref agentapi.PodRef) bool { return ref.Namespace == namespace && ref.Name == name }
	return h.setUnlessHeld(named, period, func() (int, error) { return h.leases.Lease(ctx, namespace, name, period, reason) })
}

// LeasePod implements [Leases].
func (h *heldLeases) LeasePod(ctx context.Context, uid string, period time.Duration, reason string) (int, error) {
	own := func(ref agentapi.PodRef) bool { return ref.UID == uid }
	return h.setUnlessHeld(own, period, func() (int, error) { return h.leases.LeasePod(ctx, uid, period, reason) })
}

// begun sets the lease of the pods that it is for, unless the VM of one is being
// resized. While it does, no hold begins.
func (h *heldLeases) setUnlessHeld(of func(agentapi.PodRef) bool, period time.Duration, set func() (int, error)) (int, error) {
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

// begin notes that a lease is about to hold, unless the VM is being resized. It is not
// while there is a lease already.
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
