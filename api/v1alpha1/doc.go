// Package v1alpha1 holds the Kubernetes types of mooring.dev/v1alpha1.
//
// A [MigrationReservation] is the ledger entry of one live migration: how much more the
// quotas of its namespace have to allow while the VM has a pod on both nodes. Package
// quota says when one is made and when it is released. Nobody but the controller writes
// them; to read them is everybody's business:
//
//	kubectl get mres -A
//
// +kubebuilder:object:generate=true
// +groupName=mooring.dev
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../../deploy/kubernetes/crds
