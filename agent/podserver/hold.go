package podserver

import (
	"errors"
	"path"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// ErrHeld says that a lease cannot start during a resize of the VM.
var ErrHeld = errors.New("its VM is being resized")

// Hold implements [Pod]. Holds and leases exclude each other: a lease covers other work on the VM,
// such as a migration.
func (p *pod) Hold(d time.Duration, added podapi.Amount) error {
	if d <= 0 {
		p.setHold(time.Time{})
		p.node.growths.release(p.uid)
		return nil
	}
	until := time.Now().Add(min(d, podapi.MaxHold))
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.launcher() // with its lease
	if err != nil {
		return err
	}
	if lease := l.Lease; lease != nil && time.Now().Before(lease.Until) {
		return refusal(podapi.CodeMigrating, "a lease holds until %s for: %s",
			lease.Until.UTC().Format(time.RFC3339), lease.Reason)
	}
	if p.startingLeases > 0 {
		return refusal(podapi.CodeMigrating, "a lease is starting")
	}
	if err := p.reserveGrowth(growth{uint64(added), until}); err != nil {
		return err
	}
	p.heldUntil = until
	return nil
}

// reserveGrowth reserves the node's memory for a resize. Without growth it always succeeds.
func (p *pod) reserveGrowth(g growth) error {
	if g.bytes == 0 {
		p.node.growths.release(p.uid)
		return nil
	}
	l, err := p.launcher()
	if err != nil {
		return err
	}
	cgroup, err := p.node.Cgroup(l)
	if err != nil {
		return refusalIfGone(err)
	}
	available, err := host.AvailableMemory(p.node.Kernel, path.Dir(cgroup))
	if err != nil {
		return err
	}
	return p.node.growths.reserve(p.uid, g, available)
}

func (p *pod) setHold(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldUntil = until
}
