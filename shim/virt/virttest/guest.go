package virttest

import (
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Guest is the behaviour of a [Domain]'s guest. The zero value follows every request at once.
type Guest struct {
	// KeepVCPUsOffline: plugged vCPUs stay offline.
	KeepVCPUsOffline bool

	// KeepVCPUs: the guest refuses to release vCPUs.
	KeepVCPUs bool

	// KeepDIMMs: the guest refuses to release DIMMs.
	KeepDIMMs bool

	// KeepMemory is the size of each virtio-mem device below which the guest does not shrink it.
	// TakeMemory is the size above which it does not grow it; 0 means no bound.
	KeepMemory, TakeMemory uint64

	// MemoryPerSecond is the speed at which the guest changes virtio-mem devices, in bytes; 0: at
	// once. Reads of the state show the progress.
	MemoryPerSecond uint64

	// IgnoreBalloon: the guest ignores balloon requests.
	IgnoreBalloon bool

	// IgnoreShutdown: the guest ignores shutdown requests.
	IgnoreShutdown bool

	// Late: the guest reacts only when [Domain.AnswerPending] is called.
	Late bool
}

// SetGuest sets the guest's behaviour from now on.
func (d *Domain) SetGuest(g Guest) { d.fake.locked(func() { d.guest = g }) }

// AnswerPending makes a late guest react to all requests so far.
func (d *Domain) AnswerPending() {
	d.fake.locked(func() {
		for _, f := range d.pending {
			f()
		}
		d.pending = nil
	})
	d.fake.hub.Notify(d.state.UUID)
}

// answerWith runs a reaction of the guest. It sees the behaviour set at that time.
func (d *Domain) answerWith(f func(Guest)) {
	if d.guest.Late {
		d.pending = append(d.pending, func() { f(d.guest) })
		return
	}
	f(d.guest)
}

// checkBandwidth has the bounds of libvirt 7.0 and newer with cgroup v2.
func checkBandwidth(b virt.Bandwidth) error {
	const least = time.Millisecond
	switch {
	case b.Period != 0 && (b.Period < least || b.Period > time.Second):
		return fmt.Errorf("period %s: want %s to %s", b.Period, least, time.Second)
	case b.Quota != 0 && b.Quota != virt.Unlimited && b.Quota < least:
		return fmt.Errorf("quota %s: want %s or more, or unlimited", b.Quota, least)
	case b.Shares > 10000:
		return fmt.Errorf("shares %d: want 1 to 10000", b.Shares)
	case b.Period == 0 && b.Quota == 0 && b.Shares == 0:
		return errors.New("want at least one of period, quota and shares")
	}
	return nil
}
