package resize

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// observe reads the VM. While libvirt or the agent are away it retries for the time in
// Timeouts.Read.
func (u *run) observe(ctx context.Context) (Observed, error) {
	ctx, cancel := context.WithTimeout(ctx, u.Policy.Timeouts.Read)
	defer cancel()
	for {
		o, err := u.readVM(ctx)
		if err == nil || !uncertain(err) {
			return o, err
		}
		if u.waitForChange(ctx) != nil {
			return Observed{}, err
		}
	}
}

// errRestarted ends a run whose VM has ended. The steps so far say nothing about the next start.
var errRestarted = errors.New("the VM was started anew during the resize")

// readVM reads the VM once. The error is errRestarted if it is not the start of the record.
func (u *run) readVM(ctx context.Context) (Observed, error) {
	o, err := u.read(ctx, u.domain, u.node)
	if start := o.Limits.Start; err == nil && u.record.Start != "" && start != "" &&
		start != u.record.Start {
		err = errRestarted
	}
	return o, err
}

// observeForPlan observes the VM for a new plan. It queries the guest if the number of vCPUs
// changes, or if a previous run failed because of unused vCPUs.
func (u *run) observeForPlan(ctx context.Context, t target.Target) (Observed, error) {
	o, err := u.observeUnlessFresh(ctx)
	u.fresh = nil // a later plan needs a new observation
	_, doubted := u.failedVCPUStep(t)
	if err != nil || !doubted && (t.VCPUs == 0 || t.VCPUs == o.Domain.VCPUs.Plugged) {
		return o, err
	}
	return u.observeWithGuest(ctx)
}

// observeForReport observes the VM for the report. It queries the guest if the run changes vCPUs.
func (u *run) observeForReport(ctx context.Context) (Observed, error) {
	_, doubted := u.failedVCPUStep(u.report.Target)
	if doubted || slices.ContainsFunc(u.record.Steps, needsGuest) {
		return u.observeWithGuest(ctx)
	}
	return u.observeUnlessFresh(ctx)
}

// observeUnlessFresh reuses the latest observation if no call has changed the VM since.
func (u *run) observeUnlessFresh(ctx context.Context) (Observed, error) {
	if u.fresh != nil {
		return *u.fresh, nil
	}
	return u.observe(ctx)
}

// observeWithGuest observes the VM with a query to the guest.
func (u *run) observeWithGuest(ctx context.Context) (Observed, error) {
	defer u.setAskGuest(true)()
	return u.observe(ctx)
}

// setAskGuest switches queries to the guest on or off. The returned function restores the setting.
func (u *run) setAskGuest(ask bool) (restore func()) {
	before := u.askGuest
	u.askGuest = ask
	return func() { u.askGuest = before }
}

// needsGuest reports whether a step needs queries to the guest.
func needsGuest(s Step) bool { return s.kind() == kindSetVCPUs }

// observeBeforeStep observes the VM before a step. For closing steps the lowered memory requirement
// stays.
func (u *run) observeBeforeStep(ctx context.Context, step Step) (Observed, error) {
	if isClosing(step) {
		return u.observe(ctx)
	}
	return u.observeAndRequire(ctx)
}

// retryAgent repeats an idempotent request to the agent until an answer, for the time in
// Timeouts.Read.
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

// subscribe subscribes to changes. Without events the runner polls.
func (u *run) subscribe(ctx context.Context) {
	var domainErr, nodeErr error
	u.changes[0], domainErr = u.domain.Changed(ctx)
	u.changes[1], nodeErr = u.node.Changed(ctx)
	if err := errors.Join(domainErr, nodeErr); err != nil {
		u.Log.Warn("no events; polling for changes", "error", err)
	}
}

// waitForChange waits for a possible change. The error is ctx's.
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

// dropIfClosed ends the use of a closed channel.
func (u *run) dropIfClosed(from int, open bool) {
	if !open {
		u.changes[from] = nil
	}
}
