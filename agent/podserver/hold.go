package podserver

import (
	"errors"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// ErrHeld says that a lease cannot start during a resize of the VM.
var ErrHeld = errors.New("its VM is being resized")

// Hold implements [Pod]. Holds and leases exclude each other: a lease covers other work on the VM,
// such as a migration.
func (p *pod) Hold(d time.Duration) error {
	if d <= 0 {
		p.setHold(time.Time{})
		return nil
	}
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
	p.heldUntil = time.Now().Add(min(d, podapi.MaxHold))
	return nil
}

func (p *pod) setHold(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldUntil = until
}
