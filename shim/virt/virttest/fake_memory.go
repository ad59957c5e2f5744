package virttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// RequestMemory accepts whole blocks up to the device's size, as libvirt does.
func (d *Domain) RequestMemory(ctx context.Context, alias string, bytes uint64) error {
	return d.change(
		ctx,
		fmt.Sprintf("request %d bytes of memory device %s", bytes, alias),
		func() error {
			m, err := d.device(alias, virt.VirtioMem)
			if err != nil {
				return err
			}
			switch {
			case bytes > m.Size:
				return fmt.Errorf("%d bytes: want at most the device's size, %d", bytes, m.Size)
			case bytes%m.Block != 0:
				return fmt.Errorf("%d bytes: want a multiple of the block, %d", bytes, m.Block)
			}
			m.Requested = bytes
			d.answerWith(func(g Guest) { d.resizeVirtioMem(alias, g) })
			return nil
		},
	)
}

// resizeVirtioMem moves the current size towards the requested size, as far as the guest allows. A
// slow guest begins to move.
func (d *Domain) resizeVirtioMem(alias string, g Guest) {
	m, err := d.device(alias, virt.VirtioMem)
	switch {
	case err != nil:
	case g.MemoryPerSecond > 0:
		d.moved = time.Now()
	default:
		d.setCurrent(m, g.sizeOf(*m))
	}
}

// sizeOf returns the size that the guest gives a device in the end.
func (g Guest) sizeOf(m virt.MemoryDevice) uint64 {
	switch {
	case m.Requested > m.Current && g.TakeMemory != 0:
		return max(m.Current, min(m.Requested, g.TakeMemory))
	case m.Requested < m.Current:
		return min(m.Current, max(m.Requested, g.KeepMemory))
	}
	return m.Requested
}

func (d *Domain) setCurrent(m *virt.MemoryDevice, current uint64) {
	d.state.Memory.Balloon += current - m.Current
	m.Current = current
}

// moveMemory changes the devices of a slow guest by as many blocks as its speed allows.
func (d *Domain) moveMemory() {
	speed := d.guest.MemoryPerSecond
	if speed == 0 || d.moved.IsZero() {
		return
	}
	amount := uint64(time.Since(d.moved).Seconds() * float64(speed))
	for i := range d.state.Memory.Devices {
		m := &d.state.Memory.Devices[i]
		if m.Model != virt.VirtioMem || amount < m.Block {
			continue
		}
		d.moved = time.Now()
		step, end := amount-amount%m.Block, d.guest.sizeOf(*m)
		if end > m.Current {
			d.setCurrent(m, min(end, m.Current+step))
		} else {
			d.setCurrent(m, max(end, m.Current-min(step, m.Current)))
		}
	}
}

func (d *Domain) device(alias string, model virt.MemoryModel) (*virt.MemoryDevice, error) {
	all := d.state.Memory.Devices
	at := slices.IndexFunc(all, func(m virt.MemoryDevice) bool { return m.Alias == alias })
	if at < 0 {
		return nil, fmt.Errorf("memory device %q: %w", alias, virt.ErrNoDevice)
	}
	if all[at].Model != model {
		return nil, fmt.Errorf(
			"memory device %q is a %s: %w", alias, all[at].Model, virt.ErrUnsupported,
		)
	}
	return &all[at], nil
}

// AttachVirtioMem needs a cell and space below the maximum, as libvirt since 9.5 does.
func (d *Domain) AttachVirtioMem(ctx context.Context, m virt.MemoryDevice) error {
	action := fmt.Sprintf(
		"attach a virtio-mem device of %d bytes to cell %d, %d requested", m.Size, m.Cell,
		m.Requested,
	)
	return d.change(ctx, action, func() error {
		switch err := d.checkAttach(m.Cell, m.Size); {
		case err != nil:
			return err
		case m.Block == 0 || m.Size%m.Block != 0 || m.Requested%m.Block != 0:
			return fmt.Errorf("size %d, requested %d: want multiples of the block, %d", m.Size,
				m.Requested, m.Block)
		case m.Requested > m.Size:
			return fmt.Errorf("requested %d: want at most the size, %d", m.Requested, m.Size)
		}
		alias := d.freeAlias("virtiomem", virt.VirtioMem)
		d.state.Memory.Devices = append(d.state.Memory.Devices, virt.MemoryDevice{
			Alias: alias, Model: virt.VirtioMem, Cell: m.Cell, Size: m.Size, Block: m.Block,
			Requested: m.Requested,
		})
		d.answerWith(func(g Guest) { d.resizeVirtioMem(alias, g) })
		return nil
	})
}

// AttachDIMM needs a free slot, a cell and space below the maximum, as libvirt does. All devices
// occupy slots, as in the definitions of libvirt 9.0.
func (d *Domain) AttachDIMM(ctx context.Context, cell int, bytes uint64) error {
	return d.change(
		ctx,
		fmt.Sprintf("attach a DIMM of %d bytes to cell %d", bytes, cell),
		func() error {
			m := &d.state.Memory
			if err := d.checkDIMM(cell, bytes); err != nil {
				return err
			}
			m.Devices = append(m.Devices, virt.MemoryDevice{
				Alias: d.freeAlias("dimm", virt.DIMM),
				Model: virt.DIMM,
				Cell:  cell,
				Size:  bytes,
			})
			m.Balloon += bytes
			return nil
		},
	)
}

func (d *Domain) checkDIMM(cell int, bytes uint64) error {
	const unit = 1 << 20 // QEMU's unit; a guest may need a larger one
	if err := d.checkAttach(cell, bytes); err != nil {
		return err
	}
	switch m := d.state.Memory; {
	case bytes%unit != 0:
		return fmt.Errorf("%d bytes: want a multiple of %d", bytes, unit)
	case len(m.Devices) >= m.Slots:
		return fmt.Errorf("all %d slots are in use", m.Slots)
	}
	return nil
}

// checkAttach checks the place of a new memory device.
func (d *Domain) checkAttach(cell int, bytes uint64) error {
	m := d.state.Memory
	total := m.Boot + bytes
	for _, device := range m.Devices {
		total += device.Size
	}
	switch {
	case m.Maximum == 0 || m.Cells == 0:
		return fmt.Errorf("no maxMemory: %w", virt.ErrUnsupported)
	case bytes == 0:
		return errors.New("0 bytes: want more")
	case cell < 0 || cell >= m.Cells:
		return fmt.Errorf("cell %d: want less than %d, the number of cells", cell, m.Cells)
	case total > m.Maximum:
		return fmt.Errorf("%d bytes in total: want at most the maximum, %d", total, m.Maximum)
	}
	return nil
}

// freeAlias returns the first alias of this kind that no device has.
func (d *Domain) freeAlias(kind string, model virt.MemoryModel) string {
	for n := 0; ; n++ {
		alias := fmt.Sprintf("%s%d", kind, n)
		if _, err := d.device(alias, model); err != nil {
			return alias
		}
	}
}

// DetachDIMM removes the DIMM, unless the guest keeps it.
func (d *Domain) DetachDIMM(ctx context.Context, alias string) error {
	return d.change(ctx, "detach memory device "+alias, func() error {
		if _, err := d.device(alias, virt.DIMM); err != nil {
			return err
		}
		d.answerWith(func(g Guest) {
			if !g.KeepDIMMs {
				d.removeDIMM(alias)
			}
		})
		return nil
	})
}

func (d *Domain) removeDIMM(alias string) {
	m := &d.state.Memory
	if gone, err := d.device(alias, virt.DIMM); err == nil {
		m.Balloon -= min(gone.Size, m.Balloon)
	}
	m.Devices = slices.DeleteFunc(
		m.Devices, func(device virt.MemoryDevice) bool { return device.Alias == alias },
	)
}

// SetBalloon accepts at most the guest's memory, as libvirt does.
func (d *Domain) SetBalloon(ctx context.Context, bytes uint64) error {
	return d.change(
		ctx,
		fmt.Sprintf("leave %d bytes to the guest with the balloon", bytes),
		func() error {
			m := d.state.Memory
			if !m.Ballooned {
				return virt.ErrUnsupported
			}
			plugged := m.Boot
			for _, device := range m.Devices {
				plugged += device.Current
				if device.Model == virt.DIMM {
					plugged += device.Size
				}
			}
			if bytes%1024 != 0 || bytes > plugged {
				return fmt.Errorf(
					"%d bytes: want a multiple of 1024, at most the %d that the guest has", bytes,
					plugged,
				)
			}
			d.answerWith(func(g Guest) {
				if !g.IgnoreBalloon {
					d.state.Memory.Balloon = bytes
				}
			})
			return nil
		},
	)
}
