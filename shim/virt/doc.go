// Package virt is the shim's interface to libvirt: one connection, one domain, and the state of a
// domain at one moment. Package [github.com/mooring-vm/mooring/shim/virt/libvirt] implements it
// with libvirt. Package virttest has a fake. Both pass the same suite.
//
// All amounts of memory are bytes. Package libvirt converts from and to libvirt's KiB.
package virt
