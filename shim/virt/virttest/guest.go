package virttest

import (
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Guest is how the guest of a [Domain] behaves. The zero value does at once what it is
// asked.
type Guest struct {
	// KeepVCPUsOffline does not use vCPUs that are plugged.
	KeepVCPUsOffline bool

	// KeepVCPUs does not let go vCPUs.
	KeepVCPUs bool

	// KeepDIMMs does not let go DIMMs.
	KeepDIMMs bool

	// KeepMemory is how much of each virtio-mem device it does not give back, and
	// TakeMemory the most that it takes of each; 0: all.
	KeepMemory, TakeMemory uint64

	// IgnoreBalloon lets the balloon be as it is.
	IgnoreBalloon bool

	// IgnoreShutdown goes on running.
	IgnoreShutdown bool

	// Late answers only when [Domain.Answer] is called.
	Late bool
}

// SetGuest has the guest behave so from now on.
func (d *Domain) SetGuest(g Guest) { d.fake.locked(func() { d.guest = g }) }

// Answer has a late guest do what it was asked so far.
func (d *Domain) AnswerPending() {
	d.fake.locked(func() {
		for _, f := range d.pending {
			f()
		}
		d.pending = nil
	})
	d.fake.hub.Notify(d.state.UUID)
}

// answer has the guest do something as it behaves when it does it.
func (d *Domain) answerWith(f func(Guest)) {
	if d.guest.Late {
		d.pending = append(d.pending, func() { f(d.guest) })
		return
	}
	f(d.guest)
}

// checkBandwidth has the bounds of libvirt 7.0 and newer, with cgroup v2.
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
		return errors.New("neither period, quota nor shares")
	}
	return nil
}
