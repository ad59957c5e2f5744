package coordinator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/wanted"
	"github.com/mooring-vm/mooring/shim/virt"
)

// wish returns what is wanted, as it changes. What cannot be read, and sizes that the
// limits do not allow, change nothing: the next resize tells of them.
func (r *resizer) wish(ctx context.Context) (resize.Wish, error) {
	last, err := r.wanted(ctx, *r.latest.Load())
	if err != nil {
		return nil, err
	}
	return func() resize.Wanted {
		w := *r.latest.Load()
		if int64(w.Generation) == last.Generation {
			return last
		}
		if next, err := r.wanted(ctx, w); err == nil {
			last = next
		}
		return last
	}, nil
}

// wishOrBegun is wish. Where what is wanted cannot be had it is what the journal has begun,
// which is finished if it is still possible, and undone otherwise.
func (r *resizer) wishOrBegun(ctx context.Context) (resize.Wish, error) {
	wish, err := r.wish(ctx)
	if err == nil || unfinished(err) || ctx.Err() != nil {
		return wish, err
	}
	record, noRecord := r.Journal.Load()
	if noRecord != nil {
		return nil, err
	}
	last := record.Wanted
	return func() resize.Wanted {
		if next, err := r.wanted(ctx, *r.latest.Load()); err == nil {
			last = next
		}
		return last
	}, nil
}

func (r *resizer) wanted(ctx context.Context, w podapi.Wanted) (resize.Wanted, error) {
	size, err := r.size(ctx, w)
	return resize.Wanted{Generation: int64(w.Generation), Size: size}, err
}

// size returns the size that the pod wants for the guest as it is.
func (r *resizer) size(ctx context.Context, w podapi.Wanted) (wanted.Size, error) {
	if w.Error != "" {
		return wanted.Size{}, fmt.Errorf("what is wanted cannot be read: %s", w.Error)
	}
	state, err := r.domain.StateWithoutGuest(ctx)
	if err != nil {
		return wanted.Size{}, err
	}
	request, err := w.Size.Request()
	if err != nil {
		return wanted.Size{}, err
	}
	overhead, err := r.overhead(ctx)
	if err != nil {
		return wanted.Size{}, err
	}
	return wanted.From(podOf(w), r.guestOf(state), overhead, request)
}

// overhead is that of the VM as it is: a device that was plugged in counts.
func (r *resizer) overhead(ctx context.Context) (wanted.Overhead, error) {
	if r.Formula == nil {
		return r.Overhead, nil
	}
	text, err := r.domain.XML(ctx)
	if err != nil {
		return nil, err
	}
	return r.Formula.Of(text)
}

func podOf(w podapi.Wanted) wanted.Pod {
	return wanted.Pod{
		Launcher: w.Launcher, Outside: w.Outside, Memory: w.Pod.Memory, CPU: w.Pod.CPU,
		Containers: []wanted.Container{{Name: w.Launcher, Memory: w.Limits.Memory, CPU: w.Limits.CPU}},
	}
}

// guestOf returns what sizes depend on.
func (r *resizer) guestOf(s virt.State) wanted.Guest {
	g := wanted.Guest{Boot: s.Memory.Boot, VCPUs: s.VCPUs.Plugged, Keeps: !r.Follow}
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
