package doctor

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

const validatorTable = "[plugins.'" + nriPlugin + "'.default_validator]"

// validator looks whether pods can require the agent.
func validator(_ context.Context, s *survey) finding {
	const open = "the annotation required-plugins.noderesource.dev is not heeded: while the agent is away, launchers are created without their limits"
	if !s.configKnown() {
		return finding{Unknown, s.configErr.Error(), "whether pods can require the agent is not known", askAsRoot}
	}
	if v, ok := s.containerd(); ok && !v.AtLeast(version.MustParseGeneric("2.2")) {
		return finding{s.problemIfInstalled(), "containerd before 2.2 has none", open, "upgrade to containerd 2.2 or later"}
	}
	table := s.config.nri.Validator
	required := strings.Join(table.RequiredPlugins, ", ")
	switch {
	case s.absent():
		return finding{s.problemIfInstalled(), "off: there is no " + s.configPath() + ", and without it containerd reads no conf.d", open,
			"containerd config default >" + defaultConfig + ", install deploy/containerd/mooring.toml, and restart containerd"}
	case !value(table.Enable, false):
		return finding{s.problemIfInstalled(), "off in " + s.configFiles(), open,
			"install deploy/containerd/mooring.toml in /etc/containerd/conf.d, see that " + defaultConfig + " imports it, and restart containerd"}
	case slices.Contains(table.RequiredPlugins, "mooring"):
		return finding{Problem, "on, with required_plugins = [" + required + "]",
			"every pod of the node is held back while the agent is away, the agent's own DaemonSet for ever",
			"leave required_plugins of " + validatorTable + " empty, and annotate the launchers"}
	case required != "":
		return finding{Note, "on, with required_plugins = [" + required + "]", "every pod of the node is held back while one of these plugins is away", ""}
	}
	return finding{OK, "on, by " + s.configFiles(), "launchers that require the agent wait while it is away", ""}
}
