// Package memlock computes how much memory a VM's processes must be able to
// lock. It is arithmetic on numbers it is given: it reads no files, knows no
// processes, and its functions may be called from several goroutines at once.
//
// [ForLauncher] computes the limit of a launcher container from its annotations,
// by the rule of [VEP144]. Package domain computes libvirt's own limit from a
// domain XML, package kubevirt the overhead of KubeVirt's launchers by version.
package memlock
