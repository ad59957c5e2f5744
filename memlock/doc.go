// Package memlock computes the memory lock of a VM's launcher. It is pure arithmetic: it reads no
// files and knows no processes. Several goroutines may call its functions at once.
//
// [ForLauncher] computes the limit of a launcher container from its annotations, by the rule of
// [VEP144]. Package domain computes libvirt's own limit from a domain XML. Package kubevirt
// computes the overhead of KubeVirt's launchers by version.
package memlock
