// Package kubevirt computes, as KubeVirt does and by KubeVirt version, the memory
// that a launcher needs beyond its guest's ([Overhead]), and from that the memory
// lock of launchers made the same way ([Limit]).
//
// The formula is that of GetMemoryOverhead in KubeVirt's virt-controller
// (pkg/virt-controller/services, since 1.8 pkg/hypervisor/kvm): page tables, a fixed
// share of each process, vCPUs, I/O threads and whatever else the VM has, with
// additionalGuestMemoryOverheadRatio on top. testdata/overhead.tsv is what KubeVirt's
// own code computes for the VMs in testdata/vmis.yaml, release by release, and the
// tests hold this package against it. hack/golden/kubevirt-overhead makes it anew.
//
// A [VM] is read from a VirtualMachineInstance by package vmi.
// It may be one that a person wrote: what KubeVirt's webhook enters before it
// computes, Overhead takes into account as far as the object alone tells it:
//
//   - requests.cpu is limits.cpu where that is all there is;
//   - the CPU topology is limits.cpu, or else requests.cpu, or else 1, in sockets;
//   - requests.memory is limits.memory, or else memory.guest, or else one huge page,
//     up to KubeVirt 1.6.3. Since 1.6.4 and 1.7.0 it stays empty, and a VM without
//     it has no page tables in its overhead;
//   - the architecture is amd64.
//
// What depends on the cluster is not: presets, LimitRanges, a memory overcommit other
// than 100 %, instance types and preferences, another default architecture, memory of
// network binding plugins, and the maxGuest of 4 x guest that the LiveUpdate roll-out
// strategy (the default since 1.6) enters. An object as it is in the cluster has all
// of these entered, but for the binding plugins, and is the better input.
//
// Functions are pure, do not block, and may be called from several goroutines.
package kubevirt
