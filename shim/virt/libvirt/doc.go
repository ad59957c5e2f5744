// Package libvirt is [github.com/mooring-vm/mooring/shim/virt] by libvirt: of any
// hypervisor that it manages, but with QEMU in mind.
//
// It opens libvirt.so.0 when it is first used, and needs cgo and the build tag
// libvirt_dlopen, which hack/env.sh sets; no header of libvirt. Built without them it
// is there, but [Open] returns an error.
//
// # Events
//
// libvirt has one event loop for each process. A main calls [StartEvents] before
// [Open]: without events a connection is not seen to be lost, and [Open] refuses.
//
// There is no event of vCPUs that are plugged, of what a guest makes of them, of
// bandwidth, and of the end of a migration where the domain runs on: who waits for those
// has to look again.
//
// # Definitions
//
// What changes a running domain changes its definition in the same call of libvirt's,
// if it has one; a transient domain has none. A virtio-mem request and the unplug of a
// DIMM take a second call: the error says "in its definition" if that one failed.
//
// # Calls that hang
//
// libvirt's calls cannot be ended. Each runs in a goroutine that stays until libvirt
// answers, also when the context of the caller is done before. There are at most
// [Options.Calls] of them at a time: more wait for their turn or for their context.
// The guest agent is asked at most once at a time for each domain.
package libvirt
