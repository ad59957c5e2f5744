// Package v1alpha1 holds the Kubernetes types of mooring.dev/v1alpha1.
//
// A [MigrationReservation] is the ledger entry of one live migration. It raises the quotas of the
// namespace while the VM has a pod on both nodes. Package quota describes when the controller makes
// and releases it. Only the controller writes reservations; every user may read them:
//
//	kubectl get mres -A
//
// A [NodeState] is the state of one node's agent and of its launchers, for readers without rights
// on the node. Only the agent of the node writes it.
//
// A [NodePolicy] is the policy of the nodes that it selects. Users write it, agents apply it, and
// the controller summarises their reports in its status.
//
// +kubebuilder:object:generate=true
// +groupName=mooring.dev
package v1alpha1

//go:generate go tool -modfile=../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../../deploy/kubernetes/crds
