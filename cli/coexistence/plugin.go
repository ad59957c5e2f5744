package coexistence

import (
	"slices"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const (
	// PluginName is the name of the chart's Plugin.
	PluginName = "mooring"

	pluginsGate = "Plugins"
)

// checkPlugin examines the gate of KubeVirt's plugin API. virt-api refuses a Plugin without the
// gate, but a Plugin stays when the gate goes. virt-handler then calls no hook (CallNodeHooks).
func checkPlugin(s *subject) finding {
	switch {
	case s.PluginErr != nil:
		return finding{doctor.Unknown, plaintext.OneLine(s.PluginErr.Error()),
			"it is not known whether virt-handler calls the agent",
			remedy(s.PluginErr, `get the verb "get" for plugins.plugin.kubevirt.io`)}
	case !s.Plugin:
		return finding{doctor.OK, "no Plugin of Mooring",
			"virt-handler does not call the agent", ""}
	case s.gate(pluginsGate):
		return finding{doctor.OK, "Plugin " + PluginName + ", feature gate " + pluginsGate,
			"virt-handler calls the agent before it starts a VM", ""}
	}
	return finding{doctor.Problem, "Plugin " + PluginName + ", but spec.configuration." +
		"developerConfiguration.featureGates lacks " + pluginsGate,
		"virt-handler does not call the agent: a memory lock above KubeVirt's is lost when it " +
			"starts a VM with a device",
		"add the feature gate " + pluginsGate +
			", or set kubevirt.plugin.enabled=false in the chart"}
}

// gate reports whether a feature gate is enabled by name. KubeVirt 1.6 to 1.9 disables the gates of
// this package by default: they are alpha.
func (s *subject) gate(name string) bool {
	dev := s.object.Spec.Configuration.DeveloperConfiguration
	return dev != nil && slices.Contains(dev.FeatureGates, name)
}
