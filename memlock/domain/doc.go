// Package domain computes from a domain XML how much memory libvirt lets QEMU
// lock (RLIMIT_MEMLOCK): its qemuDomainGetMemLockLimitBytes, checked against
// libvirt's own table of cases.
//
// libvirt sets that limit when it starts QEMU, whether it is more or less than
// what QEMU would inherit, and raises it when memory or a device is plugged in. A
// libvirt that may not raise it, as in most launcher containers, fails to start
// the VM: so a launcher needs at least this much.
package domain
