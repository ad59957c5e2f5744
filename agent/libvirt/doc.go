// Package libvirt reads what the libvirt of a node keeps of its running domains, and
// asks it to shut one down.
//
// libvirt writes a file for each running domain before QEMU is executed, renames it
// into place whenever something changes, and deletes it after QEMU has ended. It says
// the same while no daemon runs. So [Records] tells which process is whose without
// asking anybody. A record may be out of date: while the daemon is away nobody
// deletes it, and the process with its pid may be another one by then. See
// [Domain.RunBy].
package libvirt
