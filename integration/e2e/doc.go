// Package e2e tests Mooring in a cluster, as its users have it: installed by the Helm chart. It takes
// any kubeconfig with all rights. `make kind` makes a cluster and runs it there. In another cluster:
//
//	MOORING_E2E_REGISTRY=REGISTRY MOORING_E2E_TAG=TAG go test -count=1 -v ./integration/e2e
//
// The nodes must be able to pull REGISTRY/mooring-agent:TAG, REGISTRY/mooring-controller:TAG and
// REGISTRY/e2e-launcher:TAG. The suite installs Mooring and uninstalls it at the end. It refuses a
// cluster that has Mooring before.
//
// Not covered yet: webhooks through a Service, quotas during migrations, an upgrade, and the flip
// from mode observe to enforce. Suites with a real control plane cover them.
package e2e
