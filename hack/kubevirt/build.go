package kubevirt

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/module"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

const (
	cacheName   = "kubevirt"
	packagePath = "github.com/mooring-vm/mooring/hack/kubevirt"
	binary      = "kubevirt"
)

// EnvVersion is the variable with the version of KubeVirt: the name of a directory in components/.
// Unset or empty, it is defaultVersion.
const (
	EnvVersion     = "MOORING_KUBEVIRT_VERSION"
	defaultVersion = "1.7"
)

// Minor is the chosen version of KubeVirt without its patch, such as 1.7.
func Minor() string { return cmp.Or(os.Getenv(EnvVersion), defaultVersion) }

// Components is the directory of the module with the programs, for the chosen version. This package
// and hack/kubevirtnode have such modules.
func Components() string { return filepath.Join("components", Minor()) }

// programs are the names of the binary. The modules in components/ define their code.
func programs() []string {
	return []string{apiProgram, controllerProgram, launcherProgram, generator}
}

// generator is the name of the generator of manifests.
const generator = "manifests"

// Build compiles the programs of KubeVirt into the user's cache, or finds them there. Beside them
// are the objects that virt-operator would install: crds.yaml, rbac.yaml, webhooks.yaml. Compiling
// takes minutes, and log reports it. The working directory must be in a checkout of Mooring.
func Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	return module.Programs{
		Package: packagePath, Module: Components(), Cache: cacheName, Names: programs(),
		Make:        build,
		Description: "the programs of KubeVirt from their module, about three minutes on two cores",
	}.Build(ctx, log)
}

// Version is the version of the programs. The working directory must be in a checkout of Mooring.
func Version(ctx context.Context) (string, error) {
	components, err := module.Find(ctx, packagePath, Components())
	if err != nil {
		return "", err
	}
	return components.Version(ctx, "kubevirt.io/kubevirt")
}

func build(ctx context.Context, components module.Module, dir string) error {
	version, err := components.Version(ctx, "kubevirt.io/kubevirt")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, binary)
	if err := components.Build(ctx, file, "-X kubevirt.io/client-go/version.gitVersion="+
		version); err != nil {
		return err
	}
	if err := module.Link(file, programs()...); err != nil {
		return err
	}
	manifests := exec.CommandContext(ctx, filepath.Join(dir, generator), dir)
	if out, err := manifests.CombinedOutput(); err != nil {
		return fmt.Errorf("generating KubeVirt's manifests: %w\n%s", err, out)
	}
	return nil
}
