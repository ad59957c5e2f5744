// Package virttest has a hypervisor for tests, [New], and the conformance suite [Run]
// of [github.com/mooring-vm/mooring/shim/virt] that it passes as libvirt does.
package virttest
