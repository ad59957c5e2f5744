// Package e2e tests Mooring in a cluster, as its users have it: installed by the Helm chart. It takes
// any kubeconfig with all rights. `make kind` makes a cluster and runs it there. In another cluster:
//
//	MOORING_E2E_REGISTRY=REGISTRY MOORING_E2E_TAG=TAG go test -count=1 -v ./integration/e2e
//
// The nodes must be able to pull REGISTRY/mooring-agent:TAG, REGISTRY/mooring-controller:TAG and
// REGISTRY/e2e-launcher:TAG. The suite installs Mooring and uninstalls it at the end. It refuses a
// cluster that has Mooring before.
//
// The tests run in the order of their files: from mode observe to enforce, an installed Mooring,
// the uninstall, and an upgrade from the last release with a second uninstall. The upgrade also
// needs $MOORING_E2E_LAST_CHART and the images of tag $MOORING_E2E_LAST_TAG; hack/last-release
// builds both. Each test runs alone, too, because the first one installs Mooring.
//
// In a cluster without KubeVirt, the suite installs KubeVirt's CRDs and acts as its controllers. In
// a cluster with KubeVirt these tests skip.
package e2e
