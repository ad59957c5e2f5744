package coordinator

import (
	"context"
	"fmt"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// targetFunc returns a function that follows the desired size. The function keeps its last target
// if the new size is unreadable or exceeds the limits. The next resize reports that.
func (r *resizer) targetFunc(ctx context.Context) (resize.TargetFunc, error) {
	last, err := r.target(ctx, *r.latest.Load())
	if err != nil {
		return nil, err
	}
	return func() target.Target {
		desired := *r.latest.Load()
		if desired.Generation == last.Generation {
			return last
		}
		if next, err := r.target(ctx, desired); err == nil {
			last = next
		}
		return last
	}, nil
}

// targetFuncOrJournal is targetFunc with a fallback to the journal's target, if the desired size is
// impossible. The runner finishes the fallback if possible, and rolls it back otherwise.
func (r *resizer) targetFuncOrJournal(ctx context.Context) (resize.TargetFunc, error) {
	targets, err := r.targetFunc(ctx)
	if err == nil || isTemporary(err) || ctx.Err() != nil {
		return targets, err
	}
	record, loadErr := r.Journal.Load()
	if loadErr != nil {
		return nil, err
	}
	last := record.Target
	return func() target.Target {
		if next, err := r.target(ctx, *r.latest.Load()); err == nil {
			last = next
		}
		return last
	}, nil
}

// target returns the target that the pod asks for, for the guest in its current state.
func (r *resizer) target(ctx context.Context, desired podapi.Desired) (target.Target, error) {
	if desired.Error != "" {
		return target.Target{}, fmt.Errorf("read the desired size: %s", desired.Error)
	}
	state, err := r.domain.StateWithoutGuest(ctx)
	if err != nil {
		return target.Target{}, err
	}
	overhead, err := r.overhead(ctx)
	if err != nil {
		return target.Target{}, err
	}
	return target.Compute(desired, r.guestOf(state), overhead)
}

// overhead returns the overhead of the current domain, including hot-plugged devices.
func (r *resizer) overhead(ctx context.Context) (target.Overhead, error) {
	if r.Formula == nil {
		return r.Overhead, nil
	}
	text, err := r.domain.XML(ctx)
	if err != nil {
		return nil, err
	}
	return r.Formula.Of(text)
}

// guestOf returns the part of the domain's state that determines the target.
func (r *resizer) guestOf(s virt.State) target.Guest {
	g := target.Guest{
		Boot: s.Memory.Boot, Block: resize.GrowthUnit(s.Memory),
		Memory: resize.Observed{Domain: s}.GuestMemory(), HugePages: s.Memory.HugePage > 0,
		MaxMemory: resize.LargestMemory(s.Memory),
		VCPUs:     s.VCPUs.Plugged, MinVCPUs: s.VCPUs.Boot, MaxVCPUs: s.VCPUs.Maximum,
		Keeps: !r.Follow,
	}
	if most := r.policy().MaxMemory; most > 0 {
		g.MaxMemory = min(g.MaxMemory, most)
	}
	if most := r.policy().MaxVCPUs; most > 0 {
		g.MaxVCPUs = min(g.MaxVCPUs, max(most, g.VCPUs))
	}
	for _, d := range s.Memory.Devices {
		if d.Model == virt.DIMM {
			g.DIMMs = append(g.DIMMs, d.Size)
		}
	}
	return g
}
