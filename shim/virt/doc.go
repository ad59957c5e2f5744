// Package virt is what the shim asks of the hypervisor's manager: a small interface to
// one domain, and what a domain is at one moment. [github.com/mooring-vm/mooring/shim/virt/libvirt]
// is the real one, virttest has a fake and the suite that both pass.
//
// Amounts of memory are bytes everywhere in it; libvirt's KiB end at its border.
package virt
