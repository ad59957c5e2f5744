// Package quota computes the size of ResourceQuotas during live migrations. A migration runs two
// pods of a VM at once, and a full quota does not admit the second one.
//
//	spec.hard = base + overrun + reservations exceeding the maintenance share
//
// The package computes spec.hard anew each time and never subtracts. It is pure: no client, no
// clock. [MakePlan] turns the content of a namespace ([Snapshot]) into writes ([Plan]). [Accounts]
// returns base, reservations and free amounts of each quota. [Charge], [FallsUnder], [Base] and
// [Maintenance] are its parts. All functions may be called concurrently and leave their arguments
// unchanged.
//
// # Life of a reservation
//
//	migration pending
//	     │ its pods fall under a quota, and no earlier migration of the VM is open
//	     ▼
//	┌──────────┐ status.hard has room ┌─────────┐ target pod is charged ┌─────────┐
//	│ Reserved ├─────────────────────►│ Granted ├──────────────────────►│ Charged │
//	└────┬─────┘◄─────────────────────┴──┬──────┘◄──────────────────────┴────┬────┘
//	     │   a quota was edited or full  │          target pod has ended     │
//	     │                               │                                   │
//	     │ migration has ended, or VM is gone                                │
//	     │                               ▼                                   │
//	     │                         ┌───────────┐◄────────────────────────────┘
//	     └────────────────────────►│ Releasing │
//	                               └─────┬─────┘
//	                                     │ the pod that has to go is not charged
//	                                     ▼
//	                                 released
//
// While a quota rejects the target pod, the condition Waiting has the reason and the missing
// amounts. No wait is final: see [RetryAnnotation].
//
// The pod awaited in Releasing is the source after a success and the target after a failure. If the
// other pod is gone instead, the remaining pod is within the base as well. If the migration object
// is gone, its outcome is unknown, and the end of either pod suffices. If the VM or the namespace
// is gone, too, both pods must end.
//
// The charge of a reservation improves in steps. Estimated: the charge of the source pod. Computed:
// an estimate of the target pod from [Snapshot.Estimates], used when a quota rejects the target
// pod. Rendered: the charge of the real target pod, from the admission webhook or the API server.
//
// A stored pod that has ended is still charged count/pods. For a quota with count/pods, the
// reservation keeps this charge until the pod is deleted.
//
// # Duties of the controller
//
//   - One writer for each namespace: a work queue with the namespace as key, and leader election.
//   - Run actions in order and stop at the first failure, so that the ledger explains each quota
//     before it is written. Then read and plan again. Conflicts are normal; count them.
//   - Write at the resourceVersion of the action. An [UpdateStatus] after an [UpdateReservation] of
//     the same object uses the new resourceVersion.
//   - A plan from caches releases no reservation and lowers no quota. It sets [Plan.NeedsLive]
//     instead. The controller then reads reservations, migrations, VMIs, pods and quotas from the
//     API server, in this order, sets [Snapshot.Live] and plans again. It reads a migration before
//     its pods, so an ended migration cannot create an unseen pod.
//   - [VMIsToEstimate] lists the VMIs with a target pod that the controller has to estimate.
//   - Plan again at [Plan.NextPlan] and at each change of a migration, VMI, launcher, attachment
//     pod, reservation, quota or the namespace. The condition Granted shows that a migration can
//     continue: admission compares with status.hard, which follows spec.hard.
//   - Overruns and faults are states. Report their changes.
//   - [Account.Free] is too high if the quota was read before a pod charged to it. Admission must
//     read pods first, and live.
//
// # Limits
//
// Setting spec.hard to the applied value is invisible, so it does not count as an edit. If a user
// removes the annotations from a raised quota, the raised value becomes the base. An admission
// policy has to prevent that.
//
// The annotation migratingVMs is informational. The package leaves it out above 64 KiB.
package quota
