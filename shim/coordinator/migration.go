package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
)

const (
	// lookEvery is how often is looked whether the VM is migrated. libvirt does not tell
	// when a migration begins, but only when its first memory is sent.
	lifeInterval = 2 * pollInterval

	// renewEvery is how often the lease of a migration is renewed. It is taken for
	// podapi.MaxLease: who outlives the shim has the rest of it.
	leaseRenewal = time.Minute

	// giveBackWithin is how long a VM's end waits for its lease to be given back.
	releaseTimeout = 5 * time.Second

	leaseReason = "a live migration" // reason of the lease
)

// keeper has one VM resized, but not while it is migrated. Then a lease holds for the
// pod: its launcher may fall silent or end, and that is no reason to end the VM.
type vmWorker struct {
	*Coordinator
	domain virt.Domain

	stopResizer func()    // ends it; nil: nothing is resized
	uuid        string    // of the VM
	migrating   bool      // at the last look
	leased      bool      // there is a lease, or may be one from an earlier shim
	renewed     time.Time // when the lease was taken last; zero: it was not
	lockDue     bool      // QEMU may need a higher memory lock here
	logged      bool      // of what failed in this migration
}

// run keeps the VM until alive is done. The lease outlives a shim that ends before its
// VM, when shim is done: the next one goes on.
func (k *vmWorker) run(shim, alive context.Context) {
	k.leased = true
	k.watch(alive)
	k.stopResizing()
	if shim.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(shim, releaseTimeout)
	defer cancel()
	k.releaseLease(ctx)
	if k.migrating && hasEnded(ctx, k.domain) {
		k.Log.Info("the VM is gone from here with its migration")
		k.endRecord()
	}
}

// follow looks whenever something may have changed.
func (k *vmWorker) watch(ctx context.Context) {
	changed, err := k.domain.Changed(ctx)
	if err != nil {
		k.Log.Debug("no events of the VM; it is looked at instead", "error", err)
	}
	looks := time.NewTicker(lifeInterval)
	defer looks.Stop()
	for {
		k.observe(ctx)
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		case _, ok := <-changed:
			if !ok {
				changed = nil
			}
		}
	}
}

// look has the VM resized or left alone, as its state wants it. While that is not known,
// what was is left as it is.
func (k *vmWorker) observe(ctx context.Context) {
	l, err := k.domain.Life(ctx)
	if err != nil || l.Phase.Ended() {
		return
	}
	if l.Migrating != k.migrating {
		k.uuid, k.migrating = l.UUID, l.Migrating
		k.onMigrationChange()
	}
	if k.migrating {
		k.stopResizing() // a resize keeps the lease from beginning
		k.takeLease(ctx)
		k.raiseLockIfDue(ctx)
		return
	}
	k.releaseLease(ctx)
	k.raiseLockIfDue(ctx)
	if !k.leased {
		k.startResizing(ctx)
	}
}

// turn begins and ends a migration.
func (k *vmWorker) onMigrationChange() {
	if k.migrating {
		k.lockDue, k.logged = true, false
		k.Log.Info("the VM is being migrated: nothing is resized meanwhile")
		return
	}
	k.Log.Info("the migration has ended, and the VM runs here")
}

// rest ends the resize that is under way. Its journal has what was begun.
func (k *vmWorker) stopResizing() {
	if k.stopResizer != nil {
		k.stopResizer()
		k.stopResizer = nil
	}
}

// resume begins to resize, with what the journal has first.
func (k *vmWorker) startResizing(ctx context.Context) {
	if k.stopResizer != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := resizer{Coordinator: k.Coordinator, domain: k.domain}
		r.run(ctx)
	}()
	k.stopResizer = func() {
		cancel()
		<-done
	}
}

// migrates reports whether a migration has come between: what is wanted has not failed
// then, and is done afterwards.
func (r *resizer) isMigrating(ctx context.Context) bool {
	l, err := r.domain.Life(ctx)
	return err == nil && l.Migrating
}

// take takes the lease, and renews it.
func (k *vmWorker) takeLease(ctx context.Context) {
	if !k.renewed.IsZero() && time.Since(k.renewed) < leaseRenewal {
		return
	}
	k.leased = true // also if nobody knows what became of the call
	if err := k.Agent.Lease(ctx, podapi.MaxLease, leaseReason); err != nil {
		k.logOnce(ctx, fmt.Errorf("take a lease for it: %w", err))
		return
	}
	k.renewed = time.Now()
}

// giveBack gives the lease back. An agent that refuses has none.
func (k *vmWorker) releaseLease(ctx context.Context) {
	if !k.leased {
		return
	}
	err := k.Agent.Lease(ctx, 0, "")
	if errors.Is(err, resize.ErrAgent) || ctx.Err() != nil {
		k.logOnce(ctx, fmt.Errorf("give its lease back: %w", err))
		return
	}
	k.leased, k.renewed = false, time.Time{}
}

// raise has QEMU's memory lock be what libvirt wants for the VM as it is. At the target
// of a migration it was chosen for the VM as its pod was created for it.
func (k *vmWorker) raiseLockIfDue(ctx context.Context) {
	if !k.lockDue {
		return
	}
	err := k.raiseLock(ctx)
	if err != nil {
		k.logOnce(ctx, fmt.Errorf("raise the memory lock of QEMU: %w", err))
	}
	k.lockDue = err != nil && (k.migrating || isTemporary(err))
}

func (k *vmWorker) raiseLock(ctx context.Context) error {
	is, err := resize.Read(ctx, k.domain, k.Agent)
	if err != nil {
		return err
	}
	wants, err := is.RequiredLock()
	if err != nil || wants == 0 {
		return err
	}
	if is.Limits.Lock >= wants {
		return nil
	}
	k.Log.Info("the memory lock of QEMU is raised", "from", is.Limits.Lock, "to", wants)
	return k.Agent.RaiseLock(ctx, wants)
}

// complain tells once in a migration of what is tried again.
func (k *vmWorker) logOnce(ctx context.Context, err error) {
	if k.logged || ctx.Err() != nil {
		return
	}
	k.logged = true
	k.Log.Warn("lease or memory lock of the VM are not as they should be; it is tried again", "error", err)
}

// close ends in the journal what was begun for a VM that is somebody else's now: it may
// come back as another size.
func (k *vmWorker) endRecord() {
	record, err := k.Journal.Load()
	if err != nil || record.Phase == resize.Ended || record.Domain != k.uuid {
		return // one that cannot be read has been set aside
	}
	record.Phase, record.Report = resize.Ended, &resize.Report{Target: record.Target, Error: "the VM was migrated away"}
	if err := k.Journal.Store(record); err != nil {
		k.Log.Warn("the journal still has a resize of a VM that is gone", "error", err)
	}
}
