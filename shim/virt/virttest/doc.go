// Package virttest has a fake hypervisor, [New], and the conformance suite [Run] of package
// [github.com/mooring-vm/mooring/shim/virt]. The fake and libvirt both pass it.
package virttest
