package virttest

import (
	"context"
	"fmt"
	"slices"

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

// resizeVirtioMem moves the current size towards the requested size, as far as the guest allows.
func (d *Domain) resizeVirtioMem(alias string, g Guest) {
	m, err := d.device(alias, virt.VirtioMem)
	if err != nil {
		return
	}
	before := m.Current
	switch {
	case m.Requested > before && g.TakeMemory != 0:
		m.Current = max(before, min(m.Requested, g.TakeMemory))
	case m.Requested < before:
		m.Current = min(before, max(m.Requested, g.KeepMemory))
	default:
		m.Current = m.Requested
	}
	d.state.Memory.Balloon += m.Current - before
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
				Alias: fmt.Sprintf(
					"dimm%d", d.freeSlot(),
				),
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
	m := d.state.Memory
	total := m.Boot + bytes
	for _, device := range m.Devices {
		total += device.Size
	}
	switch {
	case m.Maximum == 0 || m.Cells == 0:
		return fmt.Errorf("no maxMemory: %w", virt.ErrUnsupported)
	case bytes == 0 || bytes%unit != 0:
		return fmt.Errorf("%d bytes: want a multiple of %d", bytes, unit)
	case cell < 0 || cell >= m.Cells:
		return fmt.Errorf("cell %d: want less than %d, the number of cells", cell, m.Cells)
	case len(m.Devices) >= m.Slots:
		return fmt.Errorf("all %d slots are in use", m.Slots)
	case total > m.Maximum:
		return fmt.Errorf("%d bytes in total: want at most the maximum, %d", total, m.Maximum)
	}
	return nil
}

func (d *Domain) freeSlot() int {
	for slot := 0; ; slot++ {
		if _, err := d.device(fmt.Sprintf("dimm%d", slot), virt.DIMM); err != nil {
			return slot
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
