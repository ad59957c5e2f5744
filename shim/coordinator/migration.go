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
	// leaseRenewal is the interval of renewing the lease of a migration. Each lease lasts for
	// podapi.MaxLease and may outlive the shim.
	leaseRenewal = time.Minute

	// releaseTimeout bounds the last calls to the agent after the end of a VM.
	releaseTimeout = 5 * time.Second

	leaseReason = "a live migration" // reason of the lease
)

// vmWorker resizes one VM, except during a migration. During a migration it holds a lease: the
// launcher may fall silent or end, and the agent must not end the VM for that.
type vmWorker struct {
	*Coordinator
	domain virt.Domain
	lives  <-chan virt.Life // observations of the VM
	since  time.Time        // when the shim found the VM

	// stopping is closed at the pod's stop request. From then on the VM is not resized.
	stopping <-chan struct{}

	stopResizer func()    // stops the resizer and waits for it; nil: it does not run
	uuid        string    // of the VM
	migrating   bool      // as last observed
	leased      bool      // the agent may have a lease, also one of an earlier shim
	renewed     time.Time // when the agent last granted the lease; zero: never
	lockDue     bool      // QEMU may need a higher memory-lock limit on this node
	logged      bool      // logOnce has logged a failure of this migration
	stopped     bool      // the pod requests a stop
}

// run works until vmCtx ends. If shimCtx has ended too, the shim ends before its VM: the lease
// stays for the next shim.
func (w *vmWorker) run(shimCtx, vmCtx context.Context) {
	w.leased, w.since = true, time.Now()
	w.watch(vmCtx)
	w.stopResizing()
	if shimCtx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(shimCtx, releaseTimeout)
	defer cancel()
	w.releaseLease(ctx)
	if w.migrating && hasEnded(ctx, w.domain) {
		w.Log.Info("the VM has migrated away")
		w.endRecord()
	}
}

// watch handles each observation, and repeats failed calls. If libvirt does not answer, the work
// continues unchanged.
func (w *vmWorker) watch(ctx context.Context) {
	var life virt.Life
	var retry <-chan time.Time
	stopping := w.stopping
	for {
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			stopping, w.stopped = nil, true
			w.stopResizing()
			continue
		case life = <-w.lives:
		case <-retry:
		}
		w.handleLife(ctx, life)
		if retry = nil; !w.migrating && (w.leased || w.lockDue) {
			retry = time.After(retryInterval)
		}
	}
}

// handleLife resizes the VM, or takes the lease if the VM is migrating.
func (w *vmWorker) handleLife(ctx context.Context, l virt.Life) {
	if l.Phase.Ended() {
		return
	}
	if l.Migrating != w.migrating {
		w.uuid, w.migrating = l.UUID, l.Migrating
		w.onMigrationChange()
	}
	if w.migrating {
		w.stopResizing() // the agent refuses a lease during a resize
		w.takeLease(ctx)
		w.raiseLockIfDue(ctx)
		return
	}
	w.releaseLease(ctx)
	w.raiseLockIfDue(ctx)
	if !w.leased {
		w.startResizing(ctx)
	}
}

// onMigrationChange logs the start or the end of a migration. A start makes QEMU's limit due.
func (w *vmWorker) onMigrationChange() {
	if w.migrating {
		w.lockDue, w.logged = true, false
		w.Log.Info("the VM is migrating: no resize until the migration ends")
		return
	}
	w.Log.Info("the migration has ended, and the VM runs on this node")
}

// stopResizing interrupts a running resize. The journal has its started steps.
func (w *vmWorker) stopResizing() {
	if w.stopResizer != nil {
		w.stopResizer()
		w.stopResizer = nil
	}
}

// startResizing starts the resizer, which first recovers the journal.
func (w *vmWorker) startResizing(ctx context.Context) {
	if w.stopResizer != nil || w.stopped {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := resizer{Coordinator: w.Coordinator, domain: w.domain, since: w.since}
		r.run(ctx)
	}()
	w.stopResizer = func() {
		cancel()
		<-done
	}
}

// isMigrating reports whether the VM is migrating. A resize does not fail because of a migration:
// it continues afterwards.
func (r *resizer) isMigrating(ctx context.Context) bool {
	l, err := r.domain.Life(ctx)
	return err == nil && l.Migrating
}

// takeLease takes the lease, or renews it when due.
func (w *vmWorker) takeLease(ctx context.Context) {
	if !w.renewed.IsZero() && time.Since(w.renewed) < leaseRenewal {
		return
	}
	w.leased = true // the agent may grant the lease even if the call fails
	if err := w.Agent.Lease(ctx, podapi.MaxLease, leaseReason); err != nil {
		w.logOnce(ctx, fmt.Errorf("take the lease: %w", err))
		return
	}
	w.renewed = time.Now()
}

// releaseLease releases the lease. If the agent answers with a refusal, it has no lease.
func (w *vmWorker) releaseLease(ctx context.Context) {
	if !w.leased {
		return
	}
	err := w.Agent.Lease(ctx, 0, "")
	if errors.Is(err, resize.ErrAgent) || ctx.Err() != nil {
		w.logOnce(ctx, fmt.Errorf("release the lease: %w", err))
		return
	}
	w.leased, w.renewed = false, time.Time{}
}

// raiseLockIfDue raises QEMU's memory-lock limit to libvirt's formula for the current VM. At the
// target of a migration the limit fits the VM as its pod was created, which may be smaller.
func (w *vmWorker) raiseLockIfDue(ctx context.Context) {
	if !w.lockDue {
		return
	}
	err := w.raiseLock(ctx)
	if err != nil {
		w.logOnce(ctx, fmt.Errorf("raise QEMU's memory-lock limit: %w", err))
	}
	w.lockDue = err != nil && (w.migrating || isTemporary(err))
}

func (w *vmWorker) raiseLock(ctx context.Context) error {
	observed, err := resize.Read(ctx, w.domain, w.Agent)
	if err != nil {
		return err
	}
	required, err := observed.RequiredLock()
	if err != nil || required == 0 {
		return err
	}
	if observed.Limits.Lock >= required {
		return nil
	}
	w.Log.Info("raising QEMU's memory-lock limit", "from", observed.Limits.Lock, "to", required)
	return w.Agent.RaiseLock(ctx, required)
}

// logOnce logs the first failure since the start of the latest migration. The caller retries.
func (w *vmWorker) logOnce(ctx context.Context, err error) {
	if w.logged || ctx.Err() != nil {
		return
	}
	w.logged = true
	w.Log.Warn("cannot set the lease or the memory-lock limit of the VM; retrying", "error", err)
}

// endRecord ends the journal's record of a VM that migrated away. The VM may come back with another
// size.
func (w *vmWorker) endRecord() {
	record, err := w.Journal.Load()
	if err != nil || record.Phase == resize.Ended || record.Domain != w.uuid {
		return // Load has moved an unreadable record away
	}
	record.End("the VM was migrated away")
	if err := w.Journal.Store(record); err != nil {
		w.Log.Warn("cannot end the journal's resize of a VM that migrated away", "error", err)
	}
}
