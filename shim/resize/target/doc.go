// Package wanted computes the size that a VM is to have from the pod that it runs in:
// the one source of what is wanted. It is arithmetic on numbers that it is given; of the domain it reads
// what KubeVirt's formula for the overhead wants to know ([Formula]).
//
// The limits of the launcher container are the bound, whatever the other containers of
// the pod have; a limit of the pod as a whole bounds it, too. Requests have no part in
// it, so a Guaranteed pod and a Burstable one with the same limits get the same, but
// for what KubeVirt adds to the overhead of a Guaranteed one.
//
//	guest memory   memory limit, less the overhead of a launcher of the new size,
//	               rounded down to what the guest can have: what it booted with and
//	               whole blocks
//	vCPUs          CPU limit, rounded up
//	bandwidth      CPU limit, spread over the vCPUs
//	shares         as they are: only an annotation changes them
//
// Without a limit, that respect of the VM is left as it is. Annotations refine within
// the limits: what is above them is an error.
package target
