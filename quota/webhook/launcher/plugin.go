package launcher

import (
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
)

// requiredPlugins is NRI's annotation: containerd's default validator refuses a container
// while one of these plugins is away.
const requiredPlugins = "required-plugins.noderesource.dev"

// agent is the name of Mooring's plugin.
const agent = "mooring"

// requirePlugin has the launcher refused while the node's agent is away, instead of started
// without its limits. Who else is required stays so.
func (m *mutation) requirePlugin() {
	key, value, ok := api.Effective(m.pod.Annotations, requiredPlugins, m.name)
	if !ok {
		key = requiredPlugins
	}
	var names []string
	if err := yaml.Unmarshal([]byte(value), &names); err != nil {
		m.warn("annotation %s: %q: want a list of plugins such as [%q]: %v", key, value, agent, err)
		return
	}
	if slices.Contains(names, agent) {
		return
	}
	text, _ := json.Marshal(append(names, agent)) // texts alone: cannot fail
	m.pod.Annotations[key] = string(text)
}
