// Package estimate computes the charge of ResourceQuotas for the launcher pod of a VM without one.
//
// It sizes the pod's containers like KubeVirt 1.7 (virt-controller's pkg/virt-controller/services,
// after the defaults of virt-api's webhook in pkg/defaults): guest memory with the overhead of the
// running version (package memlock/kubevirt), shared CPUs by cpuAllocationRatio or dedicated ones,
// huge pages, devices, limits generated for quotas, and the containers for container disks,
// virtiofs, hooks and the guest console. LimitRanges then fill missing values, mooring-shim is
// added on request, and package quota computes the charge. An integration test compares the result
// with the real virt-controller's pods.
//
// Other KubeVirt versions differ in their overhead, which the estimate includes, and may differ in
// details, which it does not. The charge of the real pod is exact. [Launcher.Unknown] lists the
// known gaps of an estimate.
//
// The package is pure: its functions leave their arguments unchanged, do not block, and may be
// called concurrently. Only [Expand], which applies an instance type, changes its first argument.
package estimate
