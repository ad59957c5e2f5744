// Package kubevirt computes the memory overhead of KubeVirt's launchers by KubeVirt version
// ([Overhead]), from it virt-handler's memory lock ([Own]), and the lock that a launcher needs
// ([Limit]).
//
// The formula is GetMemoryOverhead of KubeVirt's virt-controller (pkg/virt-controller/services,
// since 1.8 pkg/hypervisor/kvm): page tables, a fixed share for each process, vCPUs, I/O threads
// and other parts of the VM, multiplied by additionalGuestMemoryOverheadRatio.
// testdata/overhead.tsv and testdata/lock.tsv hold the results of KubeVirt's own code for the VMs
// in testdata/vmis.yaml, release by release. The tests compare this package with them.
// hack/golden/kubevirt-overhead makes the files anew.
//
// Package vmi reads a [VM] from a VirtualMachineInstance. The object may come from a person.
// Overhead then adds the defaults of KubeVirt's webhook as far as the object alone determines them:
//
//   - requests.cpu is limits.cpu if only the limit is set;
//   - the CPU topology is limits.cpu, or else requests.cpu, or else 1, in sockets;
//   - requests.memory is limits.memory, or else memory.guest, or else one huge page, up to KubeVirt
//     1.6.3. Since 1.6.4 and 1.7.0 it stays empty, and a VM without it has no page tables in its
//     overhead;
//   - the architecture is amd64.
//
// Overhead does not know the defaults of the cluster: presets, LimitRanges, a memory overcommit
// other than 100 %, instance types and preferences, another default architecture, memory of network
// binding plugins, and the maxGuest of 4 x guest from the LiveUpdate roll-out strategy (the default
// since 1.6). An object from the cluster contains all of them except the binding plugins, and is
// the better input.
//
// Functions are pure, do not block, and several goroutines may call them.
package kubevirt
