package resize

import (
	"context"
	"errors"
	"fmt"
)

// observeAndRequire observes the VM, and raises the memory requirement to the current limit. Limits
// must not fall before the target is reached.
func (u *run) observeAndRequire(ctx context.Context) (Observed, error) {
	o, err := u.observe(ctx)
	if err != nil || u.record.Target.Memory == 0 || o.Limits.MemoryMax() <= u.required {
		return o, err
	}
	if err := u.requireMemory(ctx, o.Limits.MemoryMax()); err != nil {
		return Observed{}, fmt.Errorf("raise the memory requirement: %w", err)
	}
	return u.observe(ctx)
}

// lowerRequirement sets the requirement before closing steps: kubelet may then lower the limits.
func (u *run) lowerRequirement(ctx context.Context) {
	o, err := u.observe(ctx)
	if err == nil {
		err = u.setRequirement(ctx, o)
	}
	u.closingErr = errors.Join(u.closingErr, err)
}

// setRequirement sets the memory requirement to the need of the VM at its actual size. It never
// exceeds the current limit, because the agent would then refuse every update of the container.
func (u *run) setRequirement(ctx context.Context, o Observed) error {
	required, err := u.requirement(o)
	required = min(required, o.Limits.MemoryMax())
	if err == nil && required > 0 && required != u.required {
		err = u.requireMemory(ctx, required)
	}
	if err != nil {
		return fmt.Errorf("set the memory requirement: %w", err)
	}
	return nil
}

// requirement returns the bytes that the VM and its launcher can use without a further request. It
// is 0, which changes nothing, if they are unknown or the VM was never resized. Memory in the
// balloon counts, unless the guest has exactly the target's memory: a guest may still follow an
// earlier request to the balloon.
func (u *run) requirement(o Observed) (uint64, error) {
	t := u.record.Target
	reached := Reached(o, t, u.Policy)
	switch {
	case reached && t.Memory > 0 && o.GuestMemory() == t.GuestMemory():
		return t.MemoryRequirement(), nil
	case u.Overhead == nil, t.Memory == 0 && !u.wasResized():
		return 0, nil
	}
	memory := pluggedMemory(o.Domain.Memory, possibleSize)
	overhead, err := u.Overhead(memory, o.Domain.VCPUs.Plugged)
	if o.Domain.Memory.HugePage > 0 {
		return overhead, err // huge pages have a limit of their own
	}
	return memory + overhead, err
}

// wasResized reports whether this run or an earlier one changed the VM.
func (u *run) wasResized() bool { return u.unfinished || u.previous.Domain == u.record.Domain }

// requireMemory sends the memory requirement to the agent.
func (u *run) requireMemory(ctx context.Context, bytes uint64) error {
	err := u.retryAgent(
		ctx, func(ctx context.Context) error { return u.node.RequireMemory(ctx, bytes) },
	)
	if err == nil {
		u.required = bytes
	}
	return err
}
