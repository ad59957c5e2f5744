// Package resize makes a running VM larger or smaller: it plans the steps, carries them
// out in the one order in which the VM never has more than its limits allow, and takes
// them back or tells what is when one fails.
//
// [MakePlan] is pure: from what the VM is ([Is]), what is wanted ([Wanted]; package
// wanted computes it from the pod) and the node's [Policy] to a [Plan], or to a
// [Refusal] with every reason at once. A [Runner] carries plans out over a
// [virt.Domain] and the agent ([Node]), and keeps a [Journal], with which
// [Runner.Recover] takes up after the death of the shim.
//
// # Order
//
//	1  AwaitRoom      memory.max of pod and container are high enough   if anything grows
//	2  SettleMemory   the guest is not asked any more for what it has not done
//	3  SetVCPUs       fewer; SetBandwidth after it
//	4  RequestMemory, DetachDIMM, SetBalloon   less
//	5  RaiseLock      libvirt's own formula for the domain as it will be
//	6  RequestMemory, AttachDIMM, SetBalloon   more
//	7  SetVCPUs       more; SetBandwidth before it
//	8  AwaitLimit     memory.max of the container is as low as wanted
//	9  LowerLock      never below what is locked, what libvirt wants, nor what the launcher was given
//
// Memory that a guest has must be within memory.max, or the kernel kills QEMU, and
// memory that a device pins within the memory lock, or libvirt does not plug it: so
// limits are raised before the guest grows (1, 5 before 6, 7) and lowered when the guest
// itself has shown that it has given memory back (4 before 8, 9).
//
// Where one thing grows and another shrinks, the shrinking comes first (3, 4 before 6,
// 7). A vCPU costs the launcher memory, too, so with this order the VM is at no moment
// larger than the larger of what it was and what it becomes, in any respect; and a guest
// that does not give back has not been given anything yet. The wait for memory.max comes
// before all: if it fails, nothing was done.
//
// libvirt holds each vCPU to the bandwidth, not their sum. Bandwidth before more vCPUs,
// and after fewer, keeps vCPUs times bandwidth at or below the larger of before and
// after, in whichever direction the bandwidth goes. CPU shares are set with it, in one
// order.
//
// # Steps
//
// Each step tells what it does, what confirms it, within which time, and how it is
// undone. An order that libvirt took is not confirmed by that: the guest's own figure is
// what counts. If its answer got lost, what is shows whether it was carried out: if not,
// an order that says what is to be is given again, and one to plug or unplug a DIMM is
// not. Before each step is looked whether the VM is still as it was planned, and that no
// migration is under way; the agent holds migrations off meanwhile.
//
// If a step fails, what was begun is undone in reverse, but for 8 and 9, which follow
// when the VM is as wanted. A guest that gave only a part of what it was asked for keeps
// what it has then: it is asked for no more, and what it gave is not pressed on it. An
// undoing that would make the VM larger than it was, or the limits of which have been
// lowered meanwhile, is not done, but told. After it the report tells what the VM is,
// never what was asked for.
//
// # Means
//
// Memory grows by virtio-mem where the domain has such a device, by one DIMM where not:
// of whole blocks (128 MiB), in a free slot, in the NUMA cell whose devices have least.
// It shrinks by virtio-mem, then by whole DIMMs, the latest first. The balloon is for
// less than the guest booted with, and only where policy allows it; a balloon that is
// inflated is let out before anything is plugged, and inflated further before anything
// is unplugged. A balloon frees nothing of a guest that a device pins.
//
// A vCPU that the guest has taken offline by itself counts as one that it has.
//
// # Journal
//
// The record is written, and synced, before and after each step: what is begun may have
// taken effect. A record is no order. Who takes it up looks at what is, plans anew for
// what is wanted now, and undoes what was begun only where that is refused or fails.
package resize
