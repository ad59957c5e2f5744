package kube

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/mooring-vm/mooring/hack/module"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

const (
	cacheName   = "kube"
	packagePath = "github.com/mooring-vm/mooring/hack/kube"
	binary      = "kube"
)

// programs are the names of the binary. The module in components/ defines their code. Control planes
// of tests run the first four. A node of kind has all of them.
func programs() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubelet",
		"kube-scheduler", "kube-proxy", "kubeadm", "kubectl"}
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
	if err := components.Build(ctx, file, versionFlags(version)...); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, VersionFile), []byte(version), 0o644); err != nil {
		return err
	}
	return module.Link(file, programs()...)
}

// VersionFile is the name of the file with the version of Kubernetes beside its programs.
const VersionFile = "version"

// versionFlags set the version that the programs report. kubeadm compares major and minor version.
func versionFlags(version string) (flags []string) {
	major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
	for _, path := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X "+path+".gitVersion="+version,
			"-X "+path+".gitMajor="+major, "-X "+path+".gitMinor="+minor)
	}
	return flags
}
