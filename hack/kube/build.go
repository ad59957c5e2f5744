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

// programs are the names that the binary is called by. The module in
// components/ says what each of them runs.
func programs() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubelet"}
}

// Build compiles the programs of the control plane into the user's cache, or
// finds them there: a folder as KUBEBUILDER_ASSETS has it. Compiling takes
// minutes, in which log hears of it. The working directory must be in a
// checkout of Mooring.
func Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	return module.Programs{
		Package: packagePath, Cache: cacheName, Names: programs(), Make: build,
		Takes: "the programs of Kubernetes from their modules, about six minutes on two cores",
	}.Build(ctx, log)
}

func build(ctx context.Context, components module.Module, dir string) error {
	version, err := components.Version(ctx, "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, binary)
	versions := []string{"-X k8s.io/component-base/version.gitVersion=" + version, "-X k8s.io/client-go/pkg/version.gitVersion=" + version}
	if err := components.Build(ctx, file, versions...); err != nil {
		return err
	}
	return module.Link(file, programs()...)
}
