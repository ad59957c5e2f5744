package doctor

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
)

// Remedies of facts that the caller cannot read.
const (
	asRoot = "run as root"
	onNode = "run `mooring doctor` on the node itself: the agent's pod may not read this"
)

// containerd checks the version of the container runtime.
func containerd(_ context.Context, s *survey) finding {
	switch {
	case errors.Is(s.runtimeErr, fs.ErrPermission):
		return finding{Unknown, s.runtimeErr.Error(), "only root can query the runtime", asRoot}
	case errors.Is(s.runtimeErr, errNotChecked):
		return finding{Unknown, "not checked", "the runtime's version is not known", ""}
	case s.runtimeErr != nil && slices.Contains(s.config.disabledPlugins, criPlugin):
		return finding{
			Problem, "containerd's configuration has disabled_plugins with cri",
			"kubelet cannot use this containerd",
			`remove "cri" from disabled_plugins, and restart containerd`,
		}
	case s.runtimeErr != nil:
		return finding{
			Problem, s.runtimeErr.Error(),
			"no container runtime answers CRI: no container can be created",
			"start containerd, or give its socket: --runtime-endpoint",
		}
	}
	return containerdVersion(s)
}

func containerdVersion(s *survey) finding {
	found := s.runtime.Name + " " + s.runtime.Version
	v, ok := s.containerd()
	switch {
	case s.runtime.Name != "containerd":
		return finding{
			Unknown,
			found,
			"Mooring is tested with containerd only",
			"see docs/how-to/install.md",
		}
	case !ok:
		return finding{Unknown, found, "not a version number", ""}
	case !v.AtLeast(version.MustParseGeneric("2.0")):
		return finding{
			Note, found, "works once NRI is switched on; a pod cannot require the agent: " +
				"while the agent is away, launchers are created without their limits",
			"upgrade to containerd 2.2 or later",
		}
	case !v.AtLeast(version.MustParseGeneric("2.2")):
		return finding{
			Note, found, "works; a pod cannot require the agent: " +
				"while the agent is away, launchers are created without their limits",
			"upgrade to containerd 2.2 or later",
		}
	}
	return finding{OK, found, "has NRI, and lets pods require the agent", ""}
}
