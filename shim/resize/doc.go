// Package resize changes the size of a running VM. It plans the steps in an order that keeps the
// VM within its limits at every moment, executes them, and rolls them back if one fails.
//
// [MakePlan] is a pure function. Its input is the state of the VM ([Observed]), the desired size
// (package target computes it from the pod) and the node's [Policy]. Its result is a [Plan], or a
// [Refusal] with all reasons. A [Runner] executes plans with a [virt.Domain] and the agent
// ([Node]). It keeps a [Journal], from which [Runner.Recover] continues after the death of the
// shim.
//
// # Order
//
//	1  AwaitRaisedLimit   if the VM grows: memory.max of pod and container is high enough
//	2  SettleMemory       the guest gets no more or less than it has now of a device
//	3  SetVCPUs           fewer; SetBandwidth after it
//	4  RequestMemory, DetachDIMM, SetBalloon   less memory
//	5  RaiseLock          to libvirt's own formula for the future domain
//	6  RequestMemory, AttachVirtioMem, AttachDIMM, SetBalloon   more memory
//	7  SetVCPUs           more; SetBandwidth before it
//	8  AwaitLoweredLimit  memory.max of the container is as low as desired
//	9  LowerLock          not below locked memory, libvirt's formula or the launcher's own limit
//
// The guest's memory must fit into memory.max, or the kernel kills QEMU. Memory that a device pins
// must fit into the memory-lock limit, or libvirt refuses to plug it. So limits rise before the
// guest grows (1 and 5 before 6 and 7). They fall after the guest has confirmed that it released
// memory (4 before 8 and 9).
//
// If one resource grows and another shrinks, the shrinking comes first (3 and 4 before 6 and 7).
// A vCPU also costs memory of the launcher. With this order the VM never exceeds the larger of its
// old and its new size, in any resource. A guest that refuses to shrink has not grown yet. The wait
// for memory.max comes first, because its failure needs no rollback.
//
// libvirt limits the bandwidth of each vCPU, not of their sum. The bandwidth changes before vCPUs
// are added and after vCPUs are removed. So vCPUs times bandwidth never exceeds the larger of the
// old and the new value. The same call sets the CPU shares.
//
// # Steps
//
// Each step has a timeout since its last progress, a confirmation and, if possible, a rollback. A
// call that libvirt accepted is not a confirmation. Only the guest's own report counts. If the
// answer to a call was lost, the runner observes the VM. It repeats a call that sets an absolute
// value, but never plugs or unplugs a DIMM twice. Before each step the runner checks that the VM
// still matches the plan and that no migration runs. The agent blocks migrations meanwhile.
//
// If a step fails, the runner rolls back the started steps in reverse order. Steps 8 and 9 are
// closing steps: they follow when the VM has the desired size, and their failure causes no
// rollback. A guest that released only a part of the requested memory keeps the rest. The runner
// withdraws the request and does not return the released part. A rollback that would grow the VM
// beyond its old size, or beyond lowered limits, is skipped and reported. The report always shows
// the actual size, never the requested one.
//
// # Devices
//
// Memory grows with the virtio-mem devices if the domain has any. A domain with a maximum memory,
// no slots and no memory device gets one, as KubeVirt does it. Otherwise memory grows with one DIMM
// of whole blocks (128 MiB), in a free slot and in the NUMA cell with the least device memory. It
// shrinks with virtio-mem first, then with whole DIMMs, the latest first. The balloon serves sizes
// below the boot memory, and only if the policy allows it. An inflated balloon deflates before
// memory is plugged, and inflates further before memory is unplugged. A balloon frees no memory
// that a device pins.
//
// A vCPU that the guest has taken offline itself counts as plugged.
//
// # Journal
//
// The runner writes and syncs the record before and after each step. A started step may have taken
// effect. A record is not a command: recovery observes the VM and plans anew for the current
// desired size. It rolls started steps back only if that size is refused or fails.
package resize
