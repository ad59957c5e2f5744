// Package target computes the size of a VM from its pod's limits and from the size that the pod
// asks for. It is pure arithmetic. From the domain XML it reads only the input of KubeVirt's
// formula for the overhead ([Formula]).
//
// The bounds are the limits of the launcher container and of the pod as a whole. Limits of other
// containers and requests do not matter. A Guaranteed pod and a Burstable pod with the same limits
// get the same size, except for KubeVirt's additional overhead of a Guaranteed pod.
//
//	guest memory   memory limit less the launcher's overhead at the new size, rounded down
//	               to a size that the guest can have: boot memory and whole blocks
//	vCPUs          CPU limit, rounded up
//	bandwidth      CPU limit, spread over the vCPUs
//	shares         unchanged: only an annotation changes them
//
// Without a limit the VM keeps the dimension. Annotations choose a size within the limits; a larger
// size is an error.
package target
