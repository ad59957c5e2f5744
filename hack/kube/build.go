package kube

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/module"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

const (
	cacheName   = "kube"
	packagePath = "github.com/mooring-vm/mooring/hack/kube"
	binary      = "kube"
)

// programs are the names of the binary. The module in components/ defines their code.
func programs() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubelet"}
}

// Build compiles the programs of the control plane into the user's cache, or finds them there.
// Their directory has the form of KUBEBUILDER_ASSETS. Compiling takes minutes, and log reports it.
// The working directory must be in a checkout of Mooring.
func Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	return module.Programs{
		Package: packagePath, Cache: cacheName, Names: programs(), Make: build,
		Description: "the programs of Kubernetes from their modules, about six minutes on " +
			"two cores",
	}.Build(ctx, log)
}

func build(ctx context.Context, components module.Module, dir string) error {
	version, err := components.Version(ctx, "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, binary)
	versions := []string{"-X k8s.io/component-base/version.gitVersion=" + version,
		"-X k8s.io/client-go/pkg/version.gitVersion=" + version}
	if err := components.Build(ctx, file, versions...); err != nil {
		return err
	}
	return module.Link(file, programs()...)
}
