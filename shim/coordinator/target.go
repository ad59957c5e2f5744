package coordinator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// wish returns what is wanted, as it changes. What cannot be read, and sizes that the
// limits do not allow, change nothing: the next resize tells of them.
func (r *resizer) targetFunc(ctx context.Context) (resize.TargetFunc, error) {
	last, err := r.target(ctx, *r.latest.Load())
	if err != nil {
		return nil, err
	}
	return func() target.Target {
		w := *r.latest.Load()
		if w.Generation == last.Generation {
			return last
		}
		if next, err := r.target(ctx, w); err == nil {
			last = next
		}
		return last
	}, nil
}

// wishOrBegun is wish. Where what is wanted cannot be had it is what the journal has begun,
// which is finished if it is still possible, and undone otherwise.
func (r *resizer) targetFuncOrJournal(ctx context.Context) (resize.TargetFunc, error) {
	wish, err := r.targetFunc(ctx)
	if err == nil || isTemporary(err) || ctx.Err() != nil {
		return wish, err
	}
	record, noRecord := r.Journal.Load()
	if noRecord != nil {
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
func (r *resizer) target(ctx context.Context, d podapi.Desired) (target.Target, error) {
	if d.Error != "" {
		return target.Target{}, fmt.Errorf("what is wanted cannot be read: %s", d.Error)
	}
	state, err := r.domain.StateWithoutGuest(ctx)
	if err != nil {
		return target.Target{}, err
	}
	overhead, err := r.overhead(ctx)
	if err != nil {
		return target.Target{}, err
	}
	return target.Compute(d, r.guestOf(state), overhead)
}

// overhead is that of the VM as it is: a device that was plugged in counts.
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

// guestOf returns what sizes depend on.
func (r *resizer) guestOf(s virt.State) target.Guest {
	g := target.Guest{Boot: s.Memory.Boot, VCPUs: s.VCPUs.Plugged, Keeps: !r.Follow}
	for _, d := range s.Memory.Devices {
		switch d.Model {
		case virt.VirtioMem:
			g.Block = cmp.Or(g.Block, d.Block)
		case virt.DIMM:
			g.DIMMs = append(g.DIMMs, d.Size)
		}
	}
	if s.Memory.Slots > 0 {
		g.Block = cmp.Or(g.Block, resize.DIMMBlock)
	}
	return g
}
