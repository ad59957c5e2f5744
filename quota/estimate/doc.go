// Package estimate computes the charge of ResourceQuotas for the launcher pod of a VM without one.
//
// It sizes the pod's containers like KubeVirt (virt-controller's pkg/virt-controller/services,
// after the defaults of virt-api's webhook in pkg/defaults): guest memory with the overhead of the
// running version (package memlock/kubevirt), shared CPUs by cpuAllocationRatio or dedicated ones,
// huge pages, devices, limits generated for quotas, and the containers for container disks,
// virtiofs, hooks and the guest console. LimitRanges then fill missing values, mooring-shim is
// added on request, and package quota computes the charge.
//
// testdata/launchers.tsv holds the pods that KubeVirt 1.6 to 1.9 renders with its own code for the
// VMs in testdata/cases.yaml. A test compares the estimate with each. An integration test compares
// it with the pods of a running virt-controller. Older versions differ in their overhead, which the
// estimate includes, and may differ in details, which it does not. The charge of the real pod is
// exact. [Launcher.Unknown] lists the known gaps of an estimate.
//
// The package is pure: its functions leave their arguments unchanged, do not block, and may be
// called concurrently. Only [Expand], which applies an instance type, changes its first argument.
package estimate

//go:generate go run ../../hack/golden/kubevirt-launcher
