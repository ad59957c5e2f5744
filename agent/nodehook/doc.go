// Package nodehook answers the node hooks of KubeVirt's plugin API (VEP 190, KubeVirt 1.9).
// virt-handler calls them while a VM starts and after a migration. The agent then repairs the
// memory-lock limit of the VM's launcher, and answers when the launcher has it.
package nodehook

//go:generate go -C ../../hack/protogen run . ../../agent/nodehook v1alpha1/nodehook.proto
