// Package libvirttest runs a private libvirtd with QEMU and a small Linux guest for tests. It needs
// root for namespaces. libvirtd and QEMU are the machine's, or come from the root file system named
// by [EnvRoot].
package libvirttest
