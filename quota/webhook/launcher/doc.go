// Package launcher is the admission webhook that fills in the annotations of KubeVirt's
// launcher pods, so that nobody has to compute a memory lock by hand. It reads from the
// VirtualMachineInstance what the VM locks, adds mooring-shim where that is asked for, and
// gives the target of a migration the size that the VM has now.
//
// [Mutate] decides, and is pure. [New] makes the handler that reads what it decides by.
//
// # Whoever adds, adds
//
// The webhook is asked again when a later one has changed the pod, and others want lockable
// memory for the same pod. So nothing that is there is taken away: an amount is raised where
// it is too low, and of value.memlock.mooring.dev the share that is the webhook's own is
// noted in added.memlock.mooring.dev. A second pass over its own output changes nothing.
package launcher
