// Package vmi reads a VM from KubeVirt's objects, for package kubevirt. It is a package of its own
// because it needs KubeVirt's API.
package vmi
