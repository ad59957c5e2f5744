// Package libvirt reads the records that a node's libvirt keeps of its running domains, and
// requests the shutdown of a domain.
//
// libvirt writes a file for each running domain before it executes QEMU. It replaces the file
// by a rename after each change, and deletes it after the end of QEMU. The files stay while
// no daemon runs. So [Records] maps domains to processes without a call of the daemon.
//
// A record may be out of date. While the daemon is away, no program deletes the record, and
// the kernel may reuse the pid. See [Domain.RunBy].
package libvirt
