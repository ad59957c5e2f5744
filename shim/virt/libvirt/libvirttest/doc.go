// Package libvirttest runs a libvirtd of the test's own, with QEMU and a small Linux
// guest that answers. It is for tests alone, and needs root, for namespaces. libvirtd and
// QEMU are the machine's, or those of the root file system that [EnvRoot] names.
package libvirttest
