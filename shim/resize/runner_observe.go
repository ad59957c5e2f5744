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
func (u *run) observe(ctx context.Context) (Observed, error) {
	ctx, cancel := context.WithTimeout(ctx, u.Policy.Timeouts.Read)
	defer cancel()
	for {
		o, err := u.read(ctx, u.domain, u.node)
		if err == nil || !uncertain(err) {
			return o, err
		}
		if u.waitForChange(ctx) != nil {
			return Observed{}, err
		}
	}
}

// lookFor is look for a plan. The guest is asked if its vCPUs are to change, or if it has
// not used those that it was given: what it uses of them is part of that step.
func (u *run) observeForPlan(ctx context.Context, t target.Target) (Observed, error) {
	o, err := u.observeUnlessFresh(ctx)
	u.fresh = nil // a later plan is for what the VM is then
	if _, doubted := u.failedVCPUStep(t); err != nil || !doubted && (t.VCPUs == 0 || t.VCPUs == o.Domain.VCPUs.Plugged) {
		return o, err
	}
	return u.observeWithGuest(ctx)
}

// lookAtLast is look for what is told of the run. The guest has a word in it where its
// vCPUs were to change.
func (u *run) observeForReport(ctx context.Context) (Observed, error) {
	if _, doubted := u.failedVCPUStep(u.report.Target); doubted || slices.ContainsFunc(u.record.Steps, needsGuest) {
		return u.observeWithGuest(ctx)
	}
	return u.observeUnlessFresh(ctx)
}

// lookUnlessKnown is look where nothing was done since the last one.
func (u *run) observeUnlessFresh(ctx context.Context) (Observed, error) {
	if u.fresh != nil {
		return *u.fresh, nil
	}
	return u.observe(ctx)
}

// lookClosely is look with the guest's own word.
func (u *run) observeWithGuest(ctx context.Context) (Observed, error) {
	defer u.setAskGuest(true)()
	return u.observe(ctx)
}

// asking has the guest asked from now on, or not, until the function that it returns
// restores what was.
func (u *run) setAskGuest(ask bool) (restore func()) {
	before := u.askGuest
	u.askGuest = ask
	return func() { u.askGuest = before }
}

// asksGuest reports whether the guest has a word in what becomes of a step.
func needsGuest(s Step) bool { return s.kind() == kindSetVCPUs }

// lookBefore is the look before a step. When only closing steps are left the agent has been
// told that limits may be lower, and that stands.
func (u *run) observeBeforeStep(ctx context.Context, step Step) (Observed, error) {
	if isClosing(step) {
		return u.observe(ctx)
	}
	return u.observeAndRequire(ctx)
}

// lookGuarded reads what the VM is, with an agent that lets no limit fall below what
// was read: not before the VM is as wanted may limits be lower than they were.
func (u *run) observeAndRequire(ctx context.Context) (Observed, error) {
	o, err := u.observe(ctx)
	if err != nil || u.record.Target.Memory == 0 || o.Limits.MemoryMax() <= u.required {
		return o, err
	}
	if err := u.requireMemory(ctx, o.Limits.MemoryMax()); err != nil {
		return Observed{}, fmt.Errorf("keep limits from being lowered: %w", err)
	}
	return u.observe(ctx)
}

// need tells the agent what limits must not fall below.
func (u *run) requireMemory(ctx context.Context, bytes uint64) error {
	err := u.retryAgent(ctx, func(ctx context.Context) error { return u.node.RequireMemory(ctx, bytes) })
	if err == nil {
		u.required = bytes
	}
	return err
}

// insist asks the agent for what may be asked twice, until it has answered, for as long
// as policy says.
func (u *run) retryAgent(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, u.Policy.Timeouts.Read)
	defer cancel()
	for {
		err := request(ctx)
		if err == nil || !uncertain(err) || u.waitForChange(ctx) != nil {
			return err
		}
	}
}

// listen subscribes to what changes. Without events it is looked from time to time.
func (u *run) subscribe(ctx context.Context) {
	var domainErr, nodeErr error
	u.changes[0], domainErr = u.domain.Changed(ctx)
	u.changes[1], nodeErr = u.node.Changed(ctx)
	if err := errors.Join(domainErr, nodeErr); err != nil {
		u.Log.Warn("no events of changes: looking from time to time", "error", err)
	}
}

// wait waits until something may have changed. The error is that of ctx.
func (u *run) waitForChange(ctx context.Context) error {
	u.fresh = nil
	timer := time.NewTimer(u.Policy.Timeouts.Poll)
	defer timer.Stop()
	select {
	case _, open := <-u.changes[0]:
		u.dropIfClosed(0, open)
	case _, open := <-u.changes[1]:
		u.dropIfClosed(1, open)
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// heard stops listening to a channel that is closed.
func (u *run) dropIfClosed(from int, open bool) {
	if !open {
		u.changes[from] = nil
	}
}
