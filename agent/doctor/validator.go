package doctor

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const validatorTable = "[plugins.'" + nriPlugin + "'.default_validator]"

// validator checks whether pods can require the agent.
func validator(_ context.Context, s *survey) finding {
	const open = "containerd ignores the annotation required-plugins.noderesource.dev: " +
		"while the agent is away, launchers are created without their limits"
	if !s.configKnown() {
		return finding{
			Unknown,
			s.configErr.Error(),
			"it is not known whether pods can require the agent",
			asRoot,
		}
	}
	if v, ok := s.containerd(); ok && !v.AtLeast(version.MustParseGeneric("2.2")) {
		return finding{
			s.problemIfInstalled(), "containerd before 2.2 has no validator", open,
			"upgrade to containerd 2.2 or later",
		}
	}
	table := s.config.nri.Validator
	required := strings.Join(table.RequiredPlugins, ", ")
	switch {
	case s.noConfig():
		return finding{
			s.problemIfInstalled(),
			"off: there is no " + s.configPath() + ", and without it containerd reads no conf.d",
			open,
			"containerd config default >" + defaultConfig +
				", and mooring node configure --restart",
		}
	case !table.Enable:
		return finding{
			s.problemIfInstalled(), "off in " + s.configText(), open,
			"mooring node configure --restart",
		}
	case slices.Contains(table.RequiredPlugins, "mooring"):
		return finding{
			Problem, "on, with required_plugins = [" + required + "]",
			"while the agent is away, no pod of the node starts; the agent's own DaemonSet " +
				"never starts",
			"leave required_plugins of " + validatorTable + " empty, and annotate the launchers",
		}
	case required != "":
		return finding{
			Note, "on, with required_plugins = [" + required + "]",
			"no pod of the node starts while one of these plugins is away", "",
		}
	}
	return finding{
		OK,
		"on, by " + s.configText(),
		"launchers that require the agent wait while it is away",
		"",
	}
}
