package resize_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/memlock/domain"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// usual are the CPU shares of a VM that nobody has given others.
const usual = 100

// model is a hypervisor with its guest, and the node around it, all in one. It checks
// what must hold at every moment, and calls broken where it does not.
type model struct {
	state  virt.State
	vfio   bool
	serial int // of aliases

	guest guest
	node  node
	calls calls

	wanted map[string]uint64 // what libvirt wants, by definition

	refuse error  // what every change is refused with
	after  func() // each change of the domain; may be nil
	broken func(format string, args ...any)
}

// guest is how the guest behaves.
type guest struct {
	lag        int    // how often one looks before it has done what it was asked for
	waiting    int    // of lag
	refuseTake bool   // takes no memory, and uses no new vCPU
	refuseGive bool   // gives no memory and no vCPU back
	partly     uint64 // it gives and takes no more than this; 0: all
	offline    int    // vCPUs that it has taken offline by itself
	balloonTo  uint64 // what its balloon was told to leave
	leaving    []string
}

// node is the kubelet, the agent and the kernel.
type node struct {
	seen  resize.Limits
	limit uint64 // what kubelet wants the container's memory.max to be
	need  uint64 // what the agent was told
	held  bool

	// backoff is how many looks pass before kubelet lowers a limit that it may.
	backoff, waited int

	// intruder lowers the container's limit to what the VM uses, whatever the agent says.
	intruder bool

	least  uint64 // that QEMU has locked, whatever the guest has
	beside uint64 // overhead of a launcher, without what depends on the size
}

func newModel(boot, most uint64, broken func(string, ...any)) *model {
	m := &model{broken: broken, wanted: map[string]uint64{}}
	m.state = virt.State{
		UUID: "a-vm", Name: "vm", Phase: virt.Running,
		VCPUs:     virt.VCPUs{Plugged: 2, Maximum: 8, Boot: 1, Online: 2},
		Memory:    virt.Memory{Boot: boot, Maximum: most, Slots: 8, Cells: 2, Ballooned: true, Balloon: boot},
		Bandwidth: virt.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited, Shares: usual, Supported: true},
	}
	m.node = node{beside: 64 * mi, held: false}
	m.node.seen = resize.Limits{Lock: 8 * mi, Available: resize.NoLimit}
	m.guest.balloonTo = boot
	return m
}

// virtioMem gives the VM such a device.
func (m *model) virtioMem(most, has uint64) *model {
	m.state.Memory.Devices = append(m.state.Memory.Devices, virt.MemoryDevice{
		Alias: m.alias("virtiomem"), Model: virt.VirtioMem, Size: most, Block: 2 * mi, Requested: has, Current: has,
	})
	m.more(int64(has))
	return m
}

// dimm gives the VM such a device.
func (m *model) dimm(size uint64) *model {
	m.state.Memory.Devices = append(m.state.Memory.Devices, virt.MemoryDevice{Alias: m.alias("dimm"), Model: virt.DIMM, Size: size})
	m.more(int64(size))
	return m
}

// passthrough gives the VM a device that pins its memory.
func (m *model) passthrough() *model {
	m.vfio = true
	m.node.seen.Lock = m.wants()
	return m
}

// given says what the memory lock of the launcher is by its annotations. What QEMU has is
// as high if it was repaired, and otherwise as libvirt has set it.
func (m *model) given(bytes uint64, repaired bool) *model {
	m.node.seen.Floor = bytes
	if repaired {
		m.node.seen.Lock = max(m.node.seen.Lock, bytes)
	}
	return m
}

// settled gives the container the limit that the VM needs and little more.
func (m *model) settled() *model {
	m.node.limit = m.largest() + 16*mi
	m.node.seen.ContainerMax, m.node.seen.PodMax = m.node.limit, m.node.limit+32*mi
	m.node.need = m.node.limit
	return m
}

func (m *model) alias(kind string) string {
	m.serial++
	return fmt.Sprintf("%s%d", kind, m.serial)
}

// more changes how much memory there is; what is in the balloon stays there.
func (m *model) more(bytes int64) {
	m.state.Memory.Balloon += uint64(bytes)
	m.guest.balloonTo += uint64(bytes)
}

// overhead is what a launcher needs beside such a guest.
func (m *model) overhead(memory uint64, vcpus int) uint64 {
	return m.node.beside + memory/512 + uint64(vcpus)*8*mi
}

// largest is what VM and launcher can come to use without being asked again.
func (m *model) largest() uint64 {
	possible := m.possible()
	return possible + m.overhead(possible, m.state.VCPUs.Plugged)
}

func (m *model) possible() uint64 {
	mem := m.state.Memory
	sum := max(mem.Balloon, m.guest.balloonTo)
	for _, d := range mem.Devices {
		if d.Model == virt.VirtioMem && d.Requested > d.Current {
			sum += d.Requested - d.Current
		}
	}
	return sum
}

// wants is the memory lock that libvirt wants.
func (m *model) wants() uint64 {
	text := m.xml()
	if wants, ok := m.wanted[text]; ok {
		return wants
	}
	def, err := domain.Parse([]byte(text))
	if err != nil {
		m.broken("model: %v", err)
	}
	limit, err := def.Limit()
	if err != nil {
		m.broken("model: %v", err)
	}
	m.wanted[text] = uint64(limit.Bytes)
	return uint64(limit.Bytes)
}

// locked is what a VFIO device pins: all that the guest has.
func (m *model) locked() uint64 {
	if !m.vfio {
		return 0
	}
	return max(m.state.Memory.Balloon, m.node.least)
}

func (m *model) xml() string {
	mem := m.state.Memory
	total := mem.Boot
	var devices strings.Builder
	for _, d := range mem.Devices {
		total += d.Size
		fmt.Fprintf(&devices, "<memory model='%s'><target><size unit='b'>%d</size></target></memory>", d.Model, d.Size)
	}
	if m.vfio {
		devices.WriteString("<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='1' slot='0' function='0'/></source></hostdev>")
	}
	return fmt.Sprintf("<domain type='kvm'><memory unit='b'>%d</memory><os><type arch='x86_64'>hvm</type></os><devices>%s</devices></domain>",
		total, devices.String())
}

// check is what must hold at every moment.
func (m *model) check(when string) {
	if most := min(m.node.seen.PodMax, m.node.seen.ContainerMax); m.largest() > most {
		m.broken("%s: the VM can use %d MiB, and memory.max is %d MiB", when, m.largest()/mi, most/mi)
	}
	if want := m.wants(); want > m.node.seen.Lock {
		m.broken("%s: libvirt wants %d MiB to be lockable, and the lock is %d MiB", when, want/mi, m.node.seen.Lock/mi)
	}
	if m.locked() > m.node.seen.Lock {
		m.broken("%s: %d MiB are locked, and the lock is %d MiB", when, m.locked()/mi, m.node.seen.Lock/mi)
	}
}

// pass lets the guest and kubelet do what they were asked for.
func (m *model) pass() {
	if m.guest.waiting > 0 {
		m.guest.waiting--
		return
	}
	for i := range m.state.Memory.Devices {
		m.passVirtioMem(&m.state.Memory.Devices[i])
	}
	m.passDIMMs()
	m.passBalloon()
	m.state.VCPUs.Online = m.online()
	m.check("guest")
}

func (m *model) online() int {
	v := m.state.VCPUs
	if v.Online < v.Plugged-m.guest.offline && m.guest.refuseTake {
		return v.Online
	}
	return v.Plugged - m.guest.offline
}

func (m *model) passVirtioMem(d *virt.MemoryDevice) {
	before := d.Current
	switch {
	case d.Model != virt.VirtioMem:
	case d.Requested > d.Current && !m.guest.refuseTake:
		d.Current += m.portion(d.Requested - d.Current)
	case d.Requested < d.Current && !m.guest.refuseGive:
		d.Current -= m.portion(d.Current - d.Requested)
	}
	m.more(int64(d.Current) - int64(before))
}

// portion is how much of an amount the guest moves at all.
func (m *model) portion(n uint64) uint64 {
	if m.guest.partly == 0 {
		return n
	}
	some := min(n, m.guest.partly)
	m.guest.partly -= some
	if m.guest.partly == 0 {
		m.guest.refuseGive, m.guest.refuseTake = true, true
	}
	return some
}

func (m *model) passDIMMs() {
	if m.guest.refuseGive {
		return
	}
	for _, alias := range m.guest.leaving {
		at := slices.IndexFunc(m.state.Memory.Devices, func(d virt.MemoryDevice) bool { return d.Alias == alias })
		if at >= 0 {
			m.more(-int64(m.state.Memory.Devices[at].Size))
			m.state.Memory.Devices = slices.Delete(slices.Clone(m.state.Memory.Devices), at, at+1)
		}
	}
	m.guest.leaving = nil
}

func (m *model) passBalloon() {
	if now := m.state.Memory.Balloon; m.guest.balloonTo < now && m.guest.refuseGive || m.guest.balloonTo > now && m.guest.refuseTake {
		return
	}
	m.state.Memory.Balloon = m.guest.balloonTo
}

// kubelet brings limits to what they are to be, unless the agent says no.
func (m *model) kubelet() {
	s := &m.node.seen
	if m.node.intruder {
		m.node.intruder = false
		m.node.limit = m.largest()
		s.ContainerMax, s.PodMax = m.node.limit, m.node.limit+32*mi
	}
	if m.node.limit > s.ContainerMax || m.node.limit >= m.node.need && m.lowers() {
		s.ContainerMax, s.PodMax = m.node.limit, m.node.limit+32*mi
	}
	s.Locked = m.locked()
	m.check("kubelet")
}

// lowers reports whether kubelet tries to lower a limit at this look.
func (m *model) lowers() bool {
	if m.node.waited++; m.node.waited <= m.node.backoff {
		return false
	}
	m.node.waited = 0
	return true
}

var errRefused = errors.New("refused")

// changed is what every change of the domain goes through.
func (m *model) changed(ctx context.Context, do func() error) error {
	return m.calls.do(virt.ErrConnection, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.state.Migrating {
			if m.calls.sawMigration {
				m.broken("a change during a migration that was seen")
			}
			return fmt.Errorf("%w: migration under way", errRefused)
		}
		if m.refuse != nil {
			return m.refuse
		}
		if err := do(); err != nil {
			return err
		}
		m.guest.waiting = m.guest.lag
		m.check("change")
		if m.after != nil {
			m.after()
		}
		return nil
	})
}
