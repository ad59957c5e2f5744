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
const defaultShares = 100

// model is a hypervisor with its guest, and the node around it, all in one. It checks
// what must hold at every moment, and calls broken where it does not.
type model struct {
	state  virt.State
	vfio   bool
	serial int // of aliases

	guest guest
	node  node
	calls calls

	requiredLocks map[string]uint64 // what libvirt wants, by definition

	refuseErr   error  // what every change is refused with
	afterChange func() // each change of the domain; may be nil
	fail        func(format string, args ...any)
}

// guest is how the guest behaves.
type guest struct {
	lag           int    // how often one looks before it has done what it was asked for
	remainingLag  int    // of lag
	refuseTake    bool   // takes no memory, and uses no new vCPU
	refuseGive    bool   // gives no memory and no vCPU back
	portionLeft   uint64 // it gives and takes no more than this; 0: all
	offline       int    // vCPUs that it has taken offline by itself
	balloonTarget uint64 // what its balloon was told to leave
	detaching     []string
}

// node is the kubelet, the agent and the kernel.
type node struct {
	limits         resize.Limits
	desiredLimit   uint64 // what kubelet wants the container's memory.max to be
	requirement    uint64 // what the agent was told
	migrationsHeld bool

	// backoff is how many looks pass before kubelet lowers a limit that it may.
	backoff, waited int

	// intruder lowers the container's limit to what the VM uses, whatever the agent says.
	lowerLimit bool

	minLocked    uint64 // that QEMU has locked, whatever the guest has
	baseOverhead uint64 // overhead of a launcher, without what depends on the size
}

func newModel(boot, most uint64, broken func(string, ...any)) *model {
	m := &model{fail: broken, requiredLocks: map[string]uint64{}}
	m.state = virt.State{
		UUID: "a-vm", Name: "vm", Phase: virt.Running,
		VCPUs:     virt.VCPUs{Plugged: 2, Maximum: 8, Boot: 1, Online: 2},
		Memory:    virt.Memory{Boot: boot, Maximum: most, Slots: 8, Cells: 2, Ballooned: true, Balloon: boot},
		Bandwidth: virt.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited, Shares: defaultShares, Supported: true},
	}
	m.node = node{baseOverhead: 64 * mi, migrationsHeld: false}
	m.node.limits = resize.Limits{Lock: 8 * mi, Available: resize.NoLimit}
	m.guest.balloonTarget = boot
	return m
}

// virtioMem gives the VM such a device.
func (m *model) virtioMem(most, has uint64) *model {
	m.state.Memory.Devices = append(m.state.Memory.Devices, virt.MemoryDevice{
		Alias: m.alias("virtiomem"), Model: virt.VirtioMem, Size: most, Block: 2 * mi, Requested: has, Current: has,
	})
	m.addMemory(int64(has))
	return m
}

// dimm gives the VM such a device.
func (m *model) dimm(size uint64) *model {
	m.state.Memory.Devices = append(m.state.Memory.Devices, virt.MemoryDevice{Alias: m.alias("dimm"), Model: virt.DIMM, Size: size})
	m.addMemory(int64(size))
	return m
}

// passthrough gives the VM a device that pins its memory.
func (m *model) passthrough() *model {
	m.vfio = true
	m.node.limits.Lock = m.requiredLock()
	return m
}

// given says what the memory lock of the launcher is by its annotations. What QEMU has is
// as high if it was repaired, and otherwise as libvirt has set it.
func (m *model) withLauncherLock(bytes uint64, repaired bool) *model {
	m.node.limits.Floor = bytes
	if repaired {
		m.node.limits.Lock = max(m.node.limits.Lock, bytes)
	}
	return m
}

// settled gives the container the limit that the VM needs and little more.
func (m *model) withLimits() *model {
	m.node.desiredLimit = m.possibleUsage() + 16*mi
	m.node.limits.ContainerMax, m.node.limits.PodMax = m.node.desiredLimit, m.node.desiredLimit+32*mi
	m.node.requirement = m.node.desiredLimit
	return m
}

func (m *model) alias(kind string) string {
	m.serial++
	return fmt.Sprintf("%s%d", kind, m.serial)
}

// more changes how much memory there is; what is in the balloon stays there.
func (m *model) addMemory(bytes int64) {
	m.state.Memory.Balloon += uint64(bytes)
	m.guest.balloonTarget += uint64(bytes)
}

// overhead is what a launcher needs beside such a guest.
func (m *model) overhead(memory uint64, vcpus int) uint64 {
	return m.node.baseOverhead + memory/512 + uint64(vcpus)*8*mi
}

// largest is what VM and launcher can come to use without being asked again.
func (m *model) possibleUsage() uint64 {
	possible := m.possibleMemory()
	return possible + m.overhead(possible, m.state.VCPUs.Plugged)
}

func (m *model) possibleMemory() uint64 {
	mem := m.state.Memory
	sum := max(mem.Balloon, m.guest.balloonTarget)
	for _, d := range mem.Devices {
		if d.Model == virt.VirtioMem && d.Requested > d.Current {
			sum += d.Requested - d.Current
		}
	}
	return sum
}

// wants is the memory lock that libvirt wants.
func (m *model) requiredLock() uint64 {
	text := m.xml()
	if wants, ok := m.requiredLocks[text]; ok {
		return wants
	}
	def, err := domain.Parse([]byte(text))
	if err != nil {
		m.fail("model: %v", err)
	}
	limit, err := def.Limit()
	if err != nil {
		m.fail("model: %v", err)
	}
	m.requiredLocks[text] = uint64(limit.Bytes)
	return uint64(limit.Bytes)
}

// locked is what a VFIO device pins: all that the guest has.
func (m *model) locked() uint64 {
	if !m.vfio {
		return 0
	}
	return max(m.state.Memory.Balloon, m.node.minLocked)
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
	if most := min(m.node.limits.PodMax, m.node.limits.ContainerMax); m.possibleUsage() > most {
		m.fail("%s: the VM can use %d MiB, and memory.max is %d MiB", when, m.possibleUsage()/mi, most/mi)
	}
	if want := m.requiredLock(); want > m.node.limits.Lock {
		m.fail("%s: libvirt wants %d MiB to be lockable, and the lock is %d MiB", when, want/mi, m.node.limits.Lock/mi)
	}
	if m.locked() > m.node.limits.Lock {
		m.fail("%s: %d MiB are locked, and the lock is %d MiB", when, m.locked()/mi, m.node.limits.Lock/mi)
	}
}

// pass lets the guest and kubelet do what they were asked for.
func (m *model) guestActs() {
	if m.guest.remainingLag > 0 {
		m.guest.remainingLag--
		return
	}
	for i := range m.state.Memory.Devices {
		m.moveVirtioMem(&m.state.Memory.Devices[i])
	}
	m.removeDIMMs()
	m.moveBalloon()
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

func (m *model) moveVirtioMem(d *virt.MemoryDevice) {
	before := d.Current
	switch {
	case d.Model != virt.VirtioMem:
	case d.Requested > d.Current && !m.guest.refuseTake:
		d.Current += m.portion(d.Requested - d.Current)
	case d.Requested < d.Current && !m.guest.refuseGive:
		d.Current -= m.portion(d.Current - d.Requested)
	}
	m.addMemory(int64(d.Current) - int64(before))
}

// portion is how much of an amount the guest moves at all.
func (m *model) portion(n uint64) uint64 {
	if m.guest.portionLeft == 0 {
		return n
	}
	some := min(n, m.guest.portionLeft)
	m.guest.portionLeft -= some
	if m.guest.portionLeft == 0 {
		m.guest.refuseGive, m.guest.refuseTake = true, true
	}
	return some
}

func (m *model) removeDIMMs() {
	if m.guest.refuseGive {
		return
	}
	for _, alias := range m.guest.detaching {
		at := slices.IndexFunc(m.state.Memory.Devices, func(d virt.MemoryDevice) bool { return d.Alias == alias })
		if at >= 0 {
			m.addMemory(-int64(m.state.Memory.Devices[at].Size))
			m.state.Memory.Devices = slices.Delete(slices.Clone(m.state.Memory.Devices), at, at+1)
		}
	}
	m.guest.detaching = nil
}

func (m *model) moveBalloon() {
	if now := m.state.Memory.Balloon; m.guest.balloonTarget < now && m.guest.refuseGive || m.guest.balloonTarget > now && m.guest.refuseTake {
		return
	}
	m.state.Memory.Balloon = m.guest.balloonTarget
}

// kubelet brings limits to what they are to be, unless the agent says no.
func (m *model) kubeletActs() {
	s := &m.node.limits
	if m.node.lowerLimit {
		m.node.lowerLimit = false
		m.node.desiredLimit = m.possibleUsage()
		s.ContainerMax, s.PodMax = m.node.desiredLimit, m.node.desiredLimit+32*mi
	}
	if m.node.desiredLimit > s.ContainerMax || m.node.desiredLimit >= m.node.requirement && m.kubeletLowers() {
		s.ContainerMax, s.PodMax = m.node.desiredLimit, m.node.desiredLimit+32*mi
	}
	s.Locked = m.locked()
	m.check("kubelet")
}

// lowers reports whether kubelet tries to lower a limit at this look.
func (m *model) kubeletLowers() bool {
	if m.node.waited++; m.node.waited <= m.node.backoff {
		return false
	}
	m.node.waited = 0
	return true
}

var errRefused = errors.New("refused")

// changed is what every change of the domain goes through.
func (m *model) change(ctx context.Context, do func() error) error {
	return m.calls.call(virt.ErrConnection, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.state.Migrating {
			if m.calls.sawMigration {
				m.fail("a change during a migration that was seen")
			}
			return fmt.Errorf("%w: migration under way", errRefused)
		}
		if m.refuseErr != nil {
			return m.refuseErr
		}
		if err := do(); err != nil {
			return err
		}
		m.guest.remainingLag = m.guest.lag
		m.check("change")
		if m.afterChange != nil {
			m.afterChange()
		}
		return nil
	})
}
