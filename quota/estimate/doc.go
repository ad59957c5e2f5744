// Package estimate tells what ResourceQuotas will charge for the launcher pod of a VM that
// has none yet.
//
// It sizes the containers of the pod as KubeVirt 1.7 does (virt-controller's
// pkg/virt-controller/services), from the instance as a VM's template makes it and after
// what virt-api's webhook enters (pkg/defaults): the guest with the memory overhead of the
// version that runs (package memlock/kubevirt), CPUs by cpuAllocationRatio or one by one
// where they are dedicated, huge pages, devices, limits that KubeVirt adds where a quota
// wants them, and the containers for container disks, virtiofs, hooks and the guest's
// console. Then LimitRanges fill what is open, mooring-shim comes beside where it is asked
// for, and package quota computes the charge. That it comes to what the real virt-controller renders is held by an integration test.
//
// Other versions of KubeVirt differ in their overhead, which is theirs here, and may in
// details, which are not: what is exact is the pod. [Launcher.Unknown] names what a pod may
// have that the estimate leaves out.
//
// The package is pure: its functions change nothing that they are given, do not block, and
// may be called concurrently. [Expand], which enters an instance type, changes its first
// argument.
package estimate
