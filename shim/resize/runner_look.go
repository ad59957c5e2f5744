package resize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// look reads what the VM is, and tries again while libvirt or the agent are away, for
// as long as policy says.
func (u *run) look(ctx context.Context) (Is, error) {
	ctx, cancel := context.WithTimeout(ctx, u.Policy.Bounds.Read)
	defer cancel()
	for {
		is, err := u.read(ctx, u.domain, u.node)
		if err == nil || !uncertain(err) {
			return is, err
		}
		if u.wait(ctx) != nil {
			return Is{}, err
		}
	}
}

// lookFor is look for a plan. The guest is asked if its vCPUs are to change, or if it has
// not used those that it was given: what it uses of them is part of that step.
func (u *run) lookFor(ctx context.Context, t target.Target) (Is, error) {
	is, err := u.lookUnlessKnown(ctx)
	u.latest = nil // a later plan is for what the VM is then
	if _, doubted := u.doubted(t); err != nil || !doubted && (t.VCPUs == 0 || t.VCPUs == is.Domain.VCPUs.Plugged) {
		return is, err
	}
	return u.lookClosely(ctx)
}

// lookAtLast is look for what is told of the run. The guest has a word in it where its
// vCPUs were to change.
func (u *run) lookAtLast(ctx context.Context) (Is, error) {
	if _, doubted := u.doubted(u.report.Target); doubted || slices.ContainsFunc(u.record.Steps, asksGuest) {
		return u.lookClosely(ctx)
	}
	return u.lookUnlessKnown(ctx)
}

// lookUnlessKnown is look where nothing was done since the last one.
func (u *run) lookUnlessKnown(ctx context.Context) (Is, error) {
	if u.latest != nil {
		return *u.latest, nil
	}
	return u.look(ctx)
}

// lookClosely is look with the guest's own word.
func (u *run) lookClosely(ctx context.Context) (Is, error) {
	defer u.asking(true)()
	return u.look(ctx)
}

// asking has the guest asked from now on, or not, until the function that it returns
// restores what was.
func (u *run) asking(asks bool) (restore func()) {
	before := u.asks
	u.asks = asks
	return func() { u.asks = before }
}

// asksGuest reports whether the guest has a word in what becomes of a step.
func asksGuest(s Step) bool { return s.kind() == kindSetVCPUs }

// lookBefore is the look before a step. When only closing steps are left the agent has been
// told that limits may be lower, and that stands.
func (u *run) lookBefore(ctx context.Context, step Step) (Is, error) {
	if closing(step) {
		return u.look(ctx)
	}
	return u.lookGuarded(ctx)
}

// lookGuarded reads what the VM is, with an agent that lets no limit fall below what
// was read: not before the VM is as wanted may limits be lower than they were.
func (u *run) lookGuarded(ctx context.Context) (Is, error) {
	is, err := u.look(ctx)
	if err != nil || u.record.Target.Memory == 0 || is.Seen.Max() <= u.guarded {
		return is, err
	}
	if err := u.need(ctx, is.Seen.Max()); err != nil {
		return Is{}, fmt.Errorf("keep limits from being lowered: %w", err)
	}
	return u.look(ctx)
}

// need tells the agent what limits must not fall below.
func (u *run) need(ctx context.Context, bytes uint64) error {
	err := u.insist(ctx, func(ctx context.Context) error { return u.node.Need(ctx, bytes) })
	if err == nil {
		u.guarded = bytes
	}
	return err
}

// insist asks the agent for what may be asked twice, until it has answered, for as long
// as policy says.
func (u *run) insist(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, u.Policy.Bounds.Read)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil || !uncertain(err) || u.wait(ctx) != nil {
			return err
		}
	}
}

// listen subscribes to what changes. Without events it is looked from time to time.
func (u *run) listen(ctx context.Context) {
	var domain, node error
	u.changes[0], domain = u.domain.Changed(ctx)
	u.changes[1], node = u.node.Changed(ctx)
	if err := errors.Join(domain, node); err != nil {
		u.Log.Warn("no events of changes: looking from time to time", "error", err)
	}
}

// wait waits until something may have changed. The error is that of ctx.
func (u *run) wait(ctx context.Context) error {
	u.latest = nil
	timer := time.NewTimer(u.Policy.Bounds.Poll)
	defer timer.Stop()
	select {
	case _, open := <-u.changes[0]:
		u.heard(0, open)
	case _, open := <-u.changes[1]:
		u.heard(1, open)
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// heard stops listening to a channel that is closed.
func (u *run) heard(from int, open bool) {
	if !open {
		u.changes[from] = nil
	}
}
