// Package libvirttest runs a libvirtd of the test's own, with QEMU and a small Linux
// guest that answers. It is for tests alone, and needs root, for namespaces.
package libvirttest
