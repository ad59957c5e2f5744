// Package vmi reads what a launcher's overhead depends on from KubeVirt's objects. It
// is apart from package kubevirt for the sake of programs that do without KubeVirt's
// API.
package vmi
