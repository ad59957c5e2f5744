// Package launcher is the admission webhook that writes the annotations of KubeVirt's launcher
// pods, so that no user has to compute a memory-lock limit. It derives the lockable memory from the
// VirtualMachineInstance, adds mooring-shim on request, and gives a migration's target pod the VM's
// actual size.
//
// [Mutate] decides and is pure. [New] returns the handler that reads its inputs.
//
// # Several webhooks for one pod
//
// The API server calls this webhook again after a later webhook changed the pod, and other webhooks
// may request lockable memory as well. So this webhook never removes a value: it raises amounts
// that are too low. added.memlock.mooring.dev holds its own share of value.memlock.mooring.dev. A
// second pass over its own output makes no change.
package launcher
