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

// defaultShares are the CPU shares of a new VM.
const defaultShares = 100

// model simulates a hypervisor, its guest and the node. It checks the invariants at every moment,
// and calls fail on a violation.
type model struct {
	state  virt.State
	vfio   bool
	serial int // of aliases

	guest guest
	node  node
	calls calls

	requiredLocks map[string]uint64 // libvirt's requirement, by definition

	refuseErr   error  // the error of every change
	afterChange func() // called after each change of the domain; may be nil
	fail        func(format string, args ...any)
}

// guest is the behaviour of the guest.
type guest struct {
	lag           int    // observations until the guest follows a request
	remainingLag  int    // of lag
	refuseTake    bool   // takes no memory and uses no new vCPU
	refuseGive    bool   // releases no memory and no vCPU
	portionLeft   uint64 // bytes that it still moves; 0: no bound
	offline       int    // vCPUs that it has taken offline itself
	balloonTarget uint64 // requested by the host
	detaching     []string
}

// node simulates kubelet, agent and kernel.
type node struct {
	limits         resize.Limits
	desiredLimit   uint64 // kubelet's target for memory.max of the container
	requirement    uint64 // memory requirement at the agent
	migrationsHeld bool
	growth         []uint64 // reserved by each hold

	// backoff is the number of observations before kubelet lowers an allowed limit.
	backoff, waited int

	// lowerLimit makes another program lower the limit to the VM's usage, without the agent.
	lowerLimit bool

	minLocked    uint64 // lower bound of QEMU's locked memory
	baseOverhead uint64 // constant part of the launcher's overhead
}

func newModel(boot, most uint64, broken func(string, ...any)) *model {
	m := &model{fail: broken, requiredLocks: map[string]uint64{}}
	m.state = virt.State{
		UUID:  "a-vm",
		Name:  "vm",
		Phase: virt.Running,
		VCPUs: virt.VCPUs{Plugged: 2, Maximum: 8, Boot: 1, Online: 2},
		Memory: virt.Memory{
			Boot:      boot,
			Maximum:   most,
			Slots:     8,
			Cells:     2,
			Ballooned: true,
			Balloon:   boot,
		},
		Bandwidth: virt.Bandwidth{
			Period:    100 * time.Millisecond,
			Quota:     virt.Unlimited,
			Shares:    defaultShares,
			Supported: true,
		},
	}
	m.node = node{baseOverhead: 64 * mi, migrationsHeld: false}
	m.node.limits = resize.Limits{Lock: 8 * mi, Available: resize.NoLimit}
	m.guest.balloonTarget = boot
	return m
}

// virtioMem adds a virtio-mem device.
func (m *model) virtioMem(most, has uint64) *model {
	m.state.Memory.Devices = append(m.state.Memory.Devices, virt.MemoryDevice{
		Alias: m.alias(
			"virtiomem",
		),
		Model:     virt.VirtioMem,
		Size:      most,
		Block:     2 * mi,
		Requested: has,
		Current:   has,
	})
	m.addMemory(int64(has))
	return m
}

// likeKubeVirt removes all slots: memory grows with a virtio-mem device that is not attached yet.
func (m *model) likeKubeVirt() *model {
	m.state.Memory.Slots = 0
	return m
}

// dimm adds a DIMM.
func (m *model) dimm(size uint64) *model {
	m.state.Memory.Devices = append(
		m.state.Memory.Devices,
		virt.MemoryDevice{Alias: m.alias("dimm"), Model: virt.DIMM, Size: size},
	)
	m.addMemory(int64(size))
	return m
}

// passthrough adds a device that pins the memory.
func (m *model) passthrough() *model {
	m.vfio = true
	m.node.limits.Lock = m.requiredLock()
	return m
}

// withLauncherLock sets the launcher's own memory-lock limit. With repaired, QEMU has at least the
// same limit. Otherwise QEMU keeps libvirt's limit.
func (m *model) withLauncherLock(bytes uint64, repaired bool) *model {
	m.node.limits.Floor = bytes
	if repaired {
		m.node.limits.Lock = max(m.node.limits.Lock, bytes)
	}
	return m
}

// withLimits sets limits a little above the VM's possible usage.
func (m *model) withLimits() *model {
	m.node.desiredLimit = m.possibleUsage() + 16*mi
	m.node.limits.ContainerMax = m.node.desiredLimit
	m.node.limits.PodMax = m.node.desiredLimit + 32*mi
	m.node.requirement = m.node.desiredLimit
	return m
}

func (m *model) alias(kind string) string {
	m.serial++
	return fmt.Sprintf("%s%d", kind, m.serial)
}

// addMemory changes the guest's memory. The balloon's part stays.
func (m *model) addMemory(bytes int64) {
	m.state.Memory.Balloon += uint64(bytes)
	m.guest.balloonTarget += uint64(bytes)
}

// overhead returns the launcher's overhead for a size.
func (m *model) overhead(memory uint64, vcpus int) uint64 {
	return m.node.baseOverhead + memory/512 + uint64(vcpus)*8*mi
}

func (m *model) overheadFunc(memory uint64, vcpus int) (uint64, error) {
	return m.overhead(memory, vcpus), nil
}

// possibleUsage returns the memory that VM and launcher can use without a further request.
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

// requiredLock returns libvirt's memory-lock requirement.
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

// locked returns the pinned memory: with VFIO all of the guest's memory.
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
		fmt.Fprintf(
			&devices, "<memory model='%s'><target><size unit='b'>%d</size></target></memory>",
			d.Model, d.Size,
		)
	}
	if m.vfio {
		devices.WriteString(
			"<hostdev mode='subsystem' type='pci'><source>" +
				"<address domain='0' bus='1' slot='0' function='0'/></source></hostdev>",
		)
	}
	return fmt.Sprintf(
		"<domain type='kvm'><memory unit='b'>%d</memory><os><type arch='x86_64'>hvm</type></os>"+
			"<devices>%s</devices></domain>",
		total,
		devices.String(),
	)
}

// check checks the invariants.
func (m *model) check(when string) {
	if most := min(m.node.limits.PodMax, m.node.limits.ContainerMax); m.possibleUsage() > most {
		m.fail(
			"%s: the VM can use %d MiB, memory.max is %d MiB", when, m.possibleUsage()/mi, most/mi,
		)
	}
	if want := m.requiredLock(); want > m.node.limits.Lock {
		m.fail(
			"%s: libvirt requires a lock of %d MiB, the limit is %d MiB", when, want/mi,
			m.node.limits.Lock/mi,
		)
	}
	if m.locked() > m.node.limits.Lock {
		m.fail(
			"%s: %d MiB are locked, the limit is %d MiB", when, m.locked()/mi,
			m.node.limits.Lock/mi,
		)
	}
}

// guestActs lets the guest follow its requests.
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

// portion returns the part of an amount that the guest moves.
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
		at := slices.IndexFunc(
			m.state.Memory.Devices, func(d virt.MemoryDevice) bool { return d.Alias == alias },
		)
		if at >= 0 {
			m.addMemory(-int64(m.state.Memory.Devices[at].Size))
			m.state.Memory.Devices = slices.Delete(slices.Clone(m.state.Memory.Devices), at, at+1)
		}
	}
	m.guest.detaching = nil
}

func (m *model) moveBalloon() {
	now := m.state.Memory.Balloon
	if m.guest.balloonTarget < now && m.guest.refuseGive ||
		m.guest.balloonTarget > now && m.guest.refuseTake {
		return
	}
	m.state.Memory.Balloon = m.guest.balloonTarget
}

// kubeletActs lets kubelet set the limits that the agent allows.
func (m *model) kubeletActs() {
	s := &m.node.limits
	if m.node.lowerLimit {
		m.node.lowerLimit = false
		m.node.desiredLimit = m.possibleUsage()
		s.ContainerMax, s.PodMax = m.node.desiredLimit, m.node.desiredLimit+32*mi
	}
	if m.node.desiredLimit > s.ContainerMax ||
		m.node.desiredLimit >= m.node.requirement && m.kubeletLowers() {
		s.ContainerMax, s.PodMax = m.node.desiredLimit, m.node.desiredLimit+32*mi
	}
	s.Locked = m.locked()
	m.check("kubelet")
}

// kubeletLowers reports whether kubelet tries to lower a limit at this observation.
func (m *model) kubeletLowers() bool {
	if m.node.waited++; m.node.waited <= m.node.backoff {
		return false
	}
	m.node.waited = 0
	return true
}

var errRefused = errors.New("refused")

// change runs a change of the domain.
func (m *model) change(ctx context.Context, do func() error) error {
	return m.calls.call(virt.ErrConnection, func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.state.Migrating {
			if m.calls.sawMigration {
				m.fail("a change during an observed migration")
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
