package libvirt

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/shim/virt"
)

// definition is a domain's XML as libvirt writes it. All amounts are KiB.
type definition struct {
	libvirtxml.Domain

	// current is the current size of each memory device. libvirtxml does not parse it.
	current []amount
}

type amount struct {
	Value uint64 `xml:",chardata"`
	Unit  string `xml:"unit,attr"`
}

func parseDefinition(text string) (definition, error) {
	var def definition
	if err := def.Unmarshal(text); err != nil {
		return def, fmt.Errorf("read the domain's XML: %w", err)
	}
	var extra struct {
		Memory []struct {
			Current amount `xml:"target>current"`
		} `xml:"devices>memory"`
	}
	if err := xml.Unmarshal([]byte(text), &extra); err != nil {
		return def, fmt.Errorf("read the domain's XML: %w", err)
	}
	for _, m := range extra.Memory {
		def.current = append(def.current, m.Current)
	}
	return def, def.check()
}

// check rejects XML that libvirt does not write, so that amounts are never misread.
func (def definition) check() error {
	if def.Memory == nil || def.VCPU == nil {
		return errors.New("read the domain's XML: it has no memory or no vcpu element")
	}
	units := []string{def.Memory.Unit}
	if m := def.MaximumMemory; m != nil {
		units = append(units, m.Unit)
	}
	if m := def.CurrentMemory; m != nil {
		units = append(units, m.Unit)
	}
	if got, want := len(def.current), len(def.memoryDevices()); got != want {
		return fmt.Errorf("read the domain's XML: %d and %d memory devices", got, want)
	}
	if b := def.MemoryBacking; b != nil && b.MemoryHugePages != nil {
		for _, page := range b.MemoryHugePages.Hugepages {
			units = append(units, page.Unit)
		}
	}
	for i, m := range def.memoryDevices() {
		if m.Target == nil || m.Target.Size == nil {
			return errors.New("read the domain's XML: a memory device has no size")
		}
		units = append(units, def.current[i].Unit)
		units = append(units, targetUnits(*m.Target)...)
	}
	for _, unit := range units {
		if unit != "" && unit != "KiB" {
			return fmt.Errorf("read the domain's XML: unit %q: want KiB", unit)
		}
	}
	return nil
}

func targetUnits(target libvirtxml.DomainMemorydevTarget) []string {
	units := []string{target.Size.Unit}
	if target.Block != nil {
		units = append(units, target.Block.Unit)
	}
	if target.Requested != nil {
		units = append(units, target.Requested.Unit)
	}
	return units
}

func (def definition) memoryDevices() []libvirtxml.DomainMemorydev {
	if def.Devices == nil {
		return nil
	}
	return def.Devices.Memorydevs
}

// state returns the part of a domain's state that its definition holds.
func (def definition) state() virt.State {
	return virt.State{
		UUID:   def.UUID,
		Name:   def.Name,
		VCPUs:  def.vcpus(),
		Memory: def.memory(),
	}
}

func (def definition) vcpus() virt.VCPUs {
	v := virt.VCPUs{
		Plugged: int(def.VCPU.Current),
		Maximum: int(def.VCPU.Value),
		Online:  virt.Unknown,
	}
	if v.Plugged == 0 {
		v.Plugged = v.Maximum
	}
	v.Boot = v.Plugged
	if def.VCPUs != nil {
		for _, vcpu := range def.VCPUs.VCPU {
			if vcpu.Enabled == "yes" && vcpu.Hotpluggable == "yes" {
				v.Boot--
			}
		}
	}
	return v
}

func (def definition) memory() virt.Memory {
	m := virt.Memory{Boot: fromKiB(def.Memory.Value), Devices: def.devices(), Cells: def.cells(),
		HugePage: def.hugePage()}
	for _, d := range m.Devices {
		m.Boot -= min(d.Size, m.Boot)
	}
	if maxMemory := def.MaximumMemory; maxMemory != nil {
		m.Maximum, m.Slots = fromKiB(maxMemory.Value), int(maxMemory.Slots)
	}
	m.Balloon = fromKiB(def.Memory.Value)
	if current := def.CurrentMemory; current != nil {
		m.Balloon = fromKiB(current.Value)
	}
	m.Ballooned = def.Devices != nil && def.Devices.MemBalloon != nil &&
		def.Devices.MemBalloon.Model != "none"
	return m
}

// defaultHugePage is the size of huge pages without a size in the XML, in bytes: that of x86.
const defaultHugePage = 2 << 20

func (def definition) hugePage() uint64 {
	if def.MemoryBacking == nil || def.MemoryBacking.MemoryHugePages == nil {
		return 0
	}
	largest := uint64(0)
	for _, page := range def.MemoryBacking.MemoryHugePages.Hugepages {
		largest = max(largest, fromKiB(page.Size))
	}
	return cmp.Or(largest, defaultHugePage)
}

func (def definition) cells() int {
	if def.CPU == nil || def.CPU.Numa == nil {
		return 0
	}
	return len(def.CPU.Numa.Cell)
}

func (def definition) devices() []virt.MemoryDevice {
	var all []virt.MemoryDevice
	for i, m := range def.memoryDevices() {
		d := virt.MemoryDevice{Model: virt.MemoryModel(m.Model), Size: fromKiB(m.Target.Size.Value)}
		if m.Alias != nil {
			d.Alias = m.Alias.Name
		}
		if m.Target.Node != nil {
			d.Cell = int(m.Target.Node.Value)
		}
		if m.Target.Block != nil {
			d.Block = fromKiB(m.Target.Block.Value)
		}
		if m.Target.Requested != nil {
			d.Requested = fromKiB(m.Target.Requested.Value)
		}
		d.Current = fromKiB(def.current[i].Value)
		all = append(all, d)
	}
	return all
}

// device finds a memory device by its alias.
func (def definition) device(alias string) (libvirtxml.DomainMemorydev, error) {
	all := def.memoryDevices()
	at := slices.IndexFunc(
		all,
		func(m libvirtxml.DomainMemorydev) bool { return m.Alias != nil && m.Alias.Name == alias },
	)
	if at < 0 {
		return libvirtxml.DomainMemorydev{}, fmt.Errorf(
			"memory device %q: %w", alias, virt.ErrNoDevice,
		)
	}
	return all[at], nil
}

// counterpart finds the device of a stored definition that corresponds to a running domain's
// device. The first choice is the same address. The second is a device of the same model, cell and
// size whose address no live device has. Without this check a repeated DetachDIMM would remove a
// different DIMM: the definition loses the DIMM before the guest releases it.
func (def definition) counterpart(
	device libvirtxml.DomainMemorydev,
	live definition,
) (libvirtxml.DomainMemorydev, bool) {
	all := def.memoryDevices()
	at := slices.IndexFunc(
		all,
		func(m libvirtxml.DomainMemorydev) bool {
			return sameKind(m, device) && sameAddress(m, device)
		},
	)
	if at < 0 {
		at = slices.IndexFunc(all, func(m libvirtxml.DomainMemorydev) bool {
			return sameKind(m, device) && !live.hasDeviceAtAddressOf(m)
		})
	}
	if at < 0 {
		return libvirtxml.DomainMemorydev{}, false
	}
	return all[at], true
}

func (def definition) hasDeviceAtAddressOf(device libvirtxml.DomainMemorydev) bool {
	return slices.ContainsFunc(
		def.memoryDevices(),
		func(m libvirtxml.DomainMemorydev) bool { return sameAddress(m, device) },
	)
}

func sameKind(a, b libvirtxml.DomainMemorydev) bool {
	return a.Model == b.Model && *a.Target.Size == *b.Target.Size &&
		reflect.DeepEqual(a.Target.Node, b.Target.Node)
}

// sameAddress compares a DIMM's slot only: the base address exists only in a running domain.
func sameAddress(a, b libvirtxml.DomainMemorydev) bool {
	if a.Address == nil || b.Address == nil {
		return false
	}
	if a.Address.DIMM != nil && b.Address.DIMM != nil {
		return reflect.DeepEqual(a.Address.DIMM.Slot, b.Address.DIMM.Slot)
	}
	return reflect.DeepEqual(a.Address, b.Address)
}

func fromKiB[N uint | uint64](amount N) uint64 { return uint64(amount) << 10 }

// toKiB rejects amounts that libvirt would round.
func toKiB(bytes uint64) (uint64, error) {
	if bytes%(1<<10) != 0 {
		return 0, fmt.Errorf("%d bytes: want a multiple of 1024", bytes)
	}
	return bytes >> 10, nil
}

// agentConnected reports whether the guest has opened its agent's channel.
func (def definition) agentConnected() bool {
	if def.Devices == nil {
		return false
	}
	return slices.ContainsFunc(def.Devices.Channels, func(c libvirtxml.DomainChannel) bool {
		return c.Target != nil && c.Target.VirtIO != nil &&
			c.Target.VirtIO.Name == "org.qemu.guest_agent.0" &&
			c.Target.VirtIO.State == "connected"
	})
}
