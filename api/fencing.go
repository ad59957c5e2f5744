package api

// FencingLabel is "true" on a namespace that opts in to fencing: each launcher pod created there
// gets this label and [PodFinalizer]. The label lets mooring-controller watch these pods alone.
const FencingLabel = "fencing" + Suffix

// PodFinalizer keeps the object of a deleted launcher pod until its VM is proven gone. Until then
// no other pod can have the name, and KubeVirt starts no other launcher of the VM.
const PodFinalizer = "mooring.dev/vm"
