// Package domain computes from a domain XML how much memory libvirt lets QEMU lock
// (RLIMIT_MEMLOCK). It follows libvirt's qemuDomainGetMemLockLimitBytes, and the tests check it
// against libvirt's own table of cases.
//
// libvirt sets the limit when it starts QEMU, also below the inherited one, and raises it when
// memory or a device is plugged in. In most launcher containers libvirt may not raise it and fails
// to start the VM. A launcher therefore needs at least this limit.
package domain
