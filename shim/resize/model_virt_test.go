package resize_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

var (
	_ virt.Domain = (*model)(nil)
	_ resize.Node = agent{}
)

func (m *model) State(ctx context.Context) (s virt.State, err error) {
	err = m.calls.call(virt.ErrConnection, func() error {
		m.guestActs()
		s = m.state
		s.Memory.Devices = slices.Clone(s.Memory.Devices)
		m.calls.sawMigration = s.Migrating
		return ctx.Err()
	})
	return s, err
}

func (m *model) StateWithoutGuest(ctx context.Context) (virt.State, error) {
	s, err := m.State(ctx)
	s.VCPUs.Online = virt.Unknown
	return s, err
}

func (m *model) Phase(ctx context.Context) (virt.Phase, error) {
	s, err := m.State(ctx)
	return s.Phase, err
}

func (m *model) Life(ctx context.Context) (virt.Life, error) {
	s, err := m.State(ctx)
	return virt.Life{UUID: s.UUID, Phase: s.Phase, Migrating: s.Migrating}, err
}

func (m *model) XML(ctx context.Context) (text string, err error) {
	err = m.calls.call(virt.ErrConnection, func() error {
		text = m.xml()
		return ctx.Err()
	})
	return text, err
}

func (m *model) SetVCPUs(ctx context.Context, n int) error {
	return m.change(ctx, func() error {
		v := &m.state.VCPUs
		switch {
		case n > v.Maximum || n < v.Boot:
			return fmt.Errorf("%w: %d vCPUs", errRefused, n)
		case n < v.Plugged && m.guest.refuseGive:
			return virt.ErrUnconfirmed
		}
		v.Plugged, v.Online = n, min(v.Online, n)
		return nil
	})
}

func (m *model) RequestMemory(ctx context.Context, alias string, bytes uint64) error {
	return m.change(ctx, func() error {
		for i := range m.state.Memory.Devices {
			d := &m.state.Memory.Devices[i]
			if d.Alias == alias && d.Model == virt.VirtioMem && bytes <= d.Size &&
				bytes%d.Block == 0 {
				d.Requested = bytes
				return nil
			}
		}
		return fmt.Errorf("%w: %d of %s", errRefused, bytes, alias)
	})
}

func (m *model) AttachVirtioMem(ctx context.Context, d virt.MemoryDevice) error {
	return m.change(ctx, func() error {
		mem := &m.state.Memory
		if d.Cell >= mem.Cells || d.Size > mem.Maximum-mem.Boot || d.Size%d.Block != 0 ||
			d.Requested > d.Size || d.Requested%d.Block != 0 || len(mem.Devices) > 0 {
			return fmt.Errorf("%w: %+v", errRefused, d)
		}
		d.Alias = m.alias("virtiomem")
		mem.Devices = []virt.MemoryDevice{d}
		return nil
	})
}

func (m *model) AttachDIMM(ctx context.Context, cell int, bytes uint64) error {
	return m.change(ctx, func() error {
		mem := &m.state.Memory
		total := bytes + mem.Boot
		for _, d := range mem.Devices {
			total += d.Size
		}
		if cell >= mem.Cells || bytes%(128*mi) != 0 || total > mem.Maximum ||
			len(mem.Devices) >= mem.Slots {
			return fmt.Errorf("%w: a DIMM of %d in cell %d", errRefused, bytes, cell)
		}
		mem.Devices = append(
			slices.Clone(mem.Devices),
			virt.MemoryDevice{Alias: m.alias("dimm"), Model: virt.DIMM, Cell: cell, Size: bytes},
		)
		m.addMemory(int64(bytes))
		return nil
	})
}

func (m *model) DetachDIMM(ctx context.Context, alias string) error {
	return m.change(ctx, func() error {
		m.guest.detaching = append(m.guest.detaching, alias)
		return nil
	})
}

func (m *model) SetBalloon(ctx context.Context, bytes uint64) error {
	return m.change(ctx, func() error {
		m.guest.balloonTarget = bytes
		return nil
	})
}

func (m *model) SetBandwidth(ctx context.Context, b virt.Bandwidth) error {
	return m.change(ctx, func() error {
		if !m.state.Bandwidth.Supported {
			return virt.ErrUnsupported
		}
		if b.Period > 0 {
			m.state.Bandwidth.Period = b.Period
		}
		if b.Quota != 0 {
			m.state.Bandwidth.Quota = b.Quota
		}
		if b.Shares != 0 {
			m.state.Bandwidth.Shares = b.Shares
		}
		return nil
	})
}

func (m *model) Shutdown(context.Context, virt.Shutdown) error { return virt.ErrUnsupported }
func (m *model) Destroy(context.Context) error                 { return virt.ErrUnsupported }

func (m *model) Changed(context.Context) (<-chan struct{}, error) {
	return nil, virt.ErrUnsupported // polling must suffice
}

// agent is the node's side of the model.
type agent struct{ m *model }

func (a agent) call(ctx context.Context, do func() error) error {
	return a.m.calls.call(resize.ErrAgent, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := do()
		a.m.check("agent")
		return err
	})
}

func (a agent) Limits(ctx context.Context) (s resize.Limits, err error) {
	err = a.call(ctx, func() error {
		a.m.kubeletActs()
		s = a.m.node.limits
		return nil
	})
	return s, err
}

func (a agent) RaiseLock(ctx context.Context, bytes uint64) error {
	return a.call(ctx, func() error {
		a.m.node.limits.Lock = max(a.m.node.limits.Lock, bytes)
		return nil
	})
}

func (a agent) LowerLock(ctx context.Context, bytes uint64) error {
	return a.call(ctx, func() error {
		if floor := a.m.node.limits.Floor; bytes < floor {
			a.m.fail("lock lowered to %d, below the launcher's own limit of %d", bytes, floor)
			return errRefused
		}
		if bytes < a.m.locked() {
			a.m.fail("lock lowered to %d with %d locked", bytes, a.m.locked())
		}
		a.m.node.limits.Lock = min(a.m.node.limits.Lock, bytes)
		return nil
	})
}

func (a agent) RequireMemory(ctx context.Context, bytes uint64) error {
	return a.call(ctx, func() error {
		a.m.node.requirement = bytes
		return nil
	})
}

func (a agent) Hold(ctx context.Context, d time.Duration, growth uint64) error {
	return a.call(ctx, func() error {
		if d > 0 && a.m.state.Migrating {
			return resize.ErrMigrating
		}
		a.m.node.migrationsHeld = d > 0
		a.m.node.growth = append(a.m.node.growth, growth)
		return nil
	})
}

func (a agent) Changed(context.Context) (<-chan struct{}, error) { return nil, resize.ErrAgent }
