package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

// namespace is KubeVirt's namespace.
const namespace = "kubevirt"

// manifests writes the objects that virt-operator installs, except Deployments and DaemonSets, into
// the directory in its argument.
func manifests() error {
	if len(os.Args) != 2 {
		return errors.New("want one argument: the directory to write to")
	}
	definitions, err := crds()
	if err != nil {
		return err
	}
	files := map[string][]any{"crds.yaml": definitions, "rbac.yaml": roles(), "webhooks.yaml": webhooks()}
	for name, objects := range files {
		if err := write(filepath.Join(os.Args[1], name), objects); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

type crdGenerator = func() (*apiextensionsv1.CustomResourceDefinition, error)

func crds() ([]any, error) {
	var all []any
	for _, generate := range append([]crdGenerator{
		components.NewKubeVirtCrd,
		components.NewMigrationPolicyCrd,
		components.NewPresetCrd,
		components.NewReplicaSetCrd,
		components.NewVirtualMachineCloneCrd,
		components.NewVirtualMachineClusterInstancetypeCrd,
		components.NewVirtualMachineClusterPreferenceCrd,
		components.NewVirtualMachineCrd,
		components.NewVirtualMachineExportCrd,
		components.NewVirtualMachineInstanceCrd,
		components.NewVirtualMachineInstanceMigrationCrd,
		components.NewVirtualMachineInstancetypeCrd,
		components.NewVirtualMachinePoolCrd,
		components.NewVirtualMachinePreferenceCrd,
		components.NewVirtualMachineRestoreCrd,
		components.NewVirtualMachineSnapshotContentCrd,
		components.NewVirtualMachineSnapshotCrd,
	}, newCRDs()...) {
		crd, err := generate()
		if err != nil {
			return nil, err
		}
		all = append(all, crd)
	}
	return all, nil
}

func roles() []any {
	var all []any
	for _, objects := range [][]runtime.Object{
		controllerRoles(),
		rbac.GetAllHandler(namespace),
		rbac.GetAllApiServer(namespace),
		rbac.GetAllCluster(),
	} {
		for _, o := range objects {
			all = append(all, o)
		}
	}
	return all
}

func webhooks() []any {
	return []any{
		components.NewVirtAPIMutatingWebhookConfiguration(namespace),
		components.NewVirtAPIValidatingWebhookConfiguration(namespace),
	}
}

func write(path string, objects []any) error {
	var docs []string
	for _, o := range objects {
		doc, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		docs = append(docs, string(doc))
	}
	return os.WriteFile(path, []byte(strings.Join(docs, "---\n")), 0o644)
}
