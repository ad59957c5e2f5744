// Package quota decides by how much ResourceQuotas are raised for live migrations. A
// migration has two pods at once, and a full quota does not let the second one in.
//
//	spec.hard = base + what is reserved beyond the share that is set aside for migrations
//
// It is computed anew each time; nothing is ever subtracted. The package is pure: it knows
// no client and no clock. [MakePlan] turns what is in a namespace ([Snapshot]) into what is
// to be written ([Plan]). [Accounts] says what each quota allows, holds and has free;
// [Charge], [FallsUnder], [Base] and [Maintenance] are the parts of it. All functions may
// be called concurrently and change nothing that they are given.
//
// # Life of a reservation
//
//	migration pending
//	     │ its pods fall under a quota; no other migration of the VM is before it
//	     ▼
//	┌──────────┐ status.hard has it ┌─────────┐ target pod is charged ┌─────────┐
//	│ Reserved ├───────────────────►│ Granted ├──────────────────────►│ Charged │
//	└────┬─────┘◄───────────────────┴──┬──────┘◄──────────────────────┴────┬────┘
//	     │   a quota was edited        │          target pod has ended     │
//	     │                             │                                   │
//	     ├── rejected till deadline ───┤                                   │
//	     ▼                             │ migration has ended, or VM is gone│
//	┌─────────┐                        ▼                                   │
//	│ Expired │                  ┌───────────┐◄────────────────────────────┘
//	└────┬────┘                  │ Releasing │
//	     │ migration has ended   └─────┬─────┘ the pod that has to go is not charged
//	     ▼                             ▼
//	  released                      released
//
// The pod that has to go is the source after a success and the target after a failure; if
// the other one has gone instead, what is left is within the base, too. Where it is not
// known how a migration ended, its object being gone, it is one of the two; when the VM or
// the namespace is gone as well, both. What a reservation is for is
// known ever better: it is that of the source pod (Estimated), or what the target pod is
// likely to be (Computed) if a quota rejects that and [Snapshot.Estimates] says so, then of
// the target pod as an admission webhook or the API server shows it (Rendered).
//
// A pod that has ended and is still stored is charged count/pods. Where a quota has that,
// the reservation keeps so much until the pod is gone.
//
// A reservation that has expired holds nothing. It is kept so that the migration is not
// reserved for again. The deadline is set when a quota is seen to reject the target pod: a
// migration that waits for its turn has none.
//
// # What the controller has to do
//
//   - One writer for each namespace: a queue keyed by it, with leader election.
//   - Actions in their order, and none after one that failed: a quota is written when the
//     ledger says why. Then read, and plan anew. A conflict is no error, but worth counting.
//   - Every write at the resourceVersion that the action carries. An [UpdateStatus] after an
//     [UpdateReservation] of the same object has to take over the new one.
//   - A plan from caches releases nothing and lowers no quota: it says so in [Plan.Live]. The
//     controller then reads reservations, migrations, VMIs, pods and quotas from the API
//     server, in this order, sets [Snapshot.Live], and plans once more. A migration is
//     read before its pods so that one that has ended can make no pod that is not seen.
//   - [ToEstimate] says of which VMs it has to find out what a target pod is charged.
//   - Plan again at [Plan.Again], and when a migration, VMI, launcher, attachment pod,
//     reservation, quota or the namespace changes. When a migration may go on is seen in
//     the condition Granted: admission compares with status.hard, which follows spec.hard.
//   - Overruns and faults are states. Tell them when they change.
//   - What is free ([Account.Free]) is too much where the quota was read before a pod
//     that is charged to it: admission has to read pods first, and live.
//
// # What it cannot know
//
// Whether somebody set spec.hard to what was applied already: it is no edit then. Nor
// whether somebody took the annotations away while the quota was raised: then the base is
// what it was raised to. A policy has to keep them from doing so.
//
// The annotation migratingVMs is for readers alone; it is left out where it would get
// longer than 64 KiB.
package quota
