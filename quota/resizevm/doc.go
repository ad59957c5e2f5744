// Package resizevm gives running VMs of KubeVirt the size that annotations of their VirtualMachine
// ask for.
//
// [Decide] is pure. It compares the desired size with the launcher pod and with the report of
// mooring-shim, and returns the next step:
//
//  1. raise requests and limits of the launcher, within the quotas of the namespace;
//  2. when kubelet has accepted them, write the pod's annotations that mooring-shim follows;
//  3. when the guest has confirmed the size, lower requests and limits that are too high.
//
// A dimension that shrinks passes steps 2 and 3 before another one grows. Growth that kubelet has
// not accepted is taken back when the user withdraws it, and in turns while other VMs wait for
// quota. So no VM holds a resource for ever while it waits for another one.
//
// [Reconciler] reads the cluster, applies the step, and keeps [api.ResizeStatusKey] on the
// VirtualMachine. It uses an annotation, because virt-controller removes unknown conditions from
// the status of a VirtualMachine. All state is in the cluster, so a new launcher of the VM gets the
// size again.
package resizevm
