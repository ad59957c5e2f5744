// Package kubevirtnode tests Mooring with the real KubeVirt: virt-handler, virt-launcher, libvirt
// and QEMU on a throw-away node. `make kubevirt` makes the cluster and runs the suite there. Each
// test first shows KubeVirt alone, or compares with it.
package kubevirtnode
