package kubevirt

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// own is KubeVirt's namespace and the object with its configuration, the formatted argument.
const own = `
apiVersion: v1
kind: Namespace
metadata: {name: ` + Namespace + `}
---
apiVersion: kubevirt.io/v1
kind: KubeVirt
metadata: {name: ` + Name + `, namespace: ` + Namespace + `}
spec: {configuration: %s}
`

// crdTimeout bounds the wait for the API server to serve the CRDs. envtest's own bound of ten
// seconds is too short on a busy machine.
const crdTimeout = 3 * time.Minute

// install installs the objects of virt-operator.
func (k *KubeVirt) install(ctx context.Context) error {
	crds := envtest.CRDInstallOptions{Paths: []string{k.file("crds.yaml")},
		ErrorIfPathMissing: true, MaxTime: crdTimeout}
	if _, err := envtest.InstallCRDs(k.plane.Config(), crds); err != nil {
		return fmt.Errorf("installing KubeVirt's CRDs: %w", err)
	}
	object := fmt.Sprintf(own, cmp.Or(k.options.Configuration, "{}"))
	if _, err := k.plane.Apply(ctx, strings.NewReader(object)); err != nil {
		return err
	}
	roles, err := os.Open(k.file("rbac.yaml"))
	if err != nil {
		return err
	}
	defer roles.Close()
	if _, err := k.plane.Apply(ctx, roles); err != nil {
		return err
	}
	return k.markDeployed(ctx)
}

// markDeployed marks KubeVirt as deployed, because its programs ignore the configuration before.
// VMs without an architecture get amd64.
func (k *KubeVirt) markDeployed(ctx context.Context) error {
	return k.patchStatus(ctx, fmt.Sprintf(`{"phase": %q, "defaultArchitecture": "amd64"}`,
		virtv1.KubeVirtPhaseDeployed))
}

// SetVersion writes the version of the programs into the KubeVirt object, as virt-operator does.
func (k *KubeVirt) SetVersion(ctx context.Context) error {
	version, err := Version(ctx)
	if err != nil {
		return err
	}
	return k.patchStatus(ctx, fmt.Sprintf(
		`{"targetKubeVirtVersion": %[1]q, "observedKubeVirtVersion": %[1]q}`, version))
}

func (k *KubeVirt) patchStatus(ctx context.Context, status string) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(virtv1.KubeVirtGroupVersionKind)
	o.SetNamespace(Namespace)
	o.SetName(Name)
	if err := k.admin.Status().Patch(ctx, o, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status": `+status+`}`))); err != nil {
		return fmt.Errorf("changing the status of KubeVirt: %w", err)
	}
	return nil
}
