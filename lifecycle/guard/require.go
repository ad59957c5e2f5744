package guard

import (
	"context"
	"fmt"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// requirement is a call of [Guard.Require] that waits for the guard's goroutine.
type requirement struct {
	containerID string
	done        chan error // has room for the answer
}

// Require checks a launcher now, ahead of the queue, and returns nil when every process has the
// granted memory-lock limit. Other checks leave a limit that another program lowered after the
// start. This one raises it, too. VM processes need their own minimum only.
//
// Require also returns nil if no limit is granted, and if the policy lets the guard only report. If
// the launcher has ended, the error wraps [host.ErrGone]. Require waits until ctx ends, and needs
// Run.
func (g *Guard) Require(ctx context.Context, containerID string) error {
	r := requirement{containerID: containerID, done: make(chan error, 1)}
	select {
	case g.requirements <- r:
	case <-ctx.Done():
		return fmt.Errorf("the guard is busy: %w", ctx.Err())
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the guard has not finished its check: %w", ctx.Err())
	}
}

// answer answers a call of Require.
func (g *Guard) answer(r requirement) { r.done <- g.require(r.containerID) }

func (g *Guard) require(containerID string) error {
	l, ok := g.Registry.Find(containerID)
	if !ok {
		return fmt.Errorf("container %s: %w", containerID, host.ErrGone)
	}
	if l.Given.Memlock == nil {
		return nil
	}
	return g.check(containerID, g.repairs())
}
