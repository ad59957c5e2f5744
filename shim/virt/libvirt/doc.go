// Package libvirt implements [github.com/mooring-vm/mooring/shim/virt] with libvirt. It is made for
// QEMU and works with other drivers as far as they support the calls.
//
// It loads libvirt.so.0 on first use. It needs cgo and the build tag libvirt_dlopen, which
// hack/env.sh sets, but no libvirt headers. Built without them, [Open] returns an error, and
// TestRealLibvirt fails and lists the tests it stands for.
//
// # Events
//
// libvirt has one event loop per process. A main program calls [StartEvents] before [Open]. Without
// events a lost connection goes unnoticed, so [Open] fails.
//
// libvirt has no events for plugged vCPUs and the guest's use of them, for bandwidth, and for the
// end of a migration after which the domain keeps running. Callers must poll for those changes.
//
// # Definitions
//
// Each change of a running domain also changes its definition, in the same libvirt call if
// possible. A transient domain has no definition. A virtio-mem request and the unplug of a DIMM
// need a second call. If that call fails, the error says "in its definition".
//
// # Calls that hang
//
// libvirt's calls cannot be interrupted. Each runs in a goroutine that stays until libvirt answers,
// even after the caller's context ends. At most [Options.MaxCalls] run at a time, each in a
// connection of its own. More callers wait for a free slot or for their context. For each domain at
// most one query to the guest agent runs at a time.
package libvirt
