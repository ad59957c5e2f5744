package launcher

import (
	"encoding/json"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
)

// requiredPlugins is NRI's annotation. containerd's default validator refuses a container while one
// of the listed plugins is missing.
const requiredPlugins = "required-plugins.noderesource.dev"

// agent is the name of Mooring's NRI plugin.
const agent = "mooring"

// requirePlugin adds the agent to the required plugins. While the agent is away, containerd then
// refuses the launcher instead of starting it without its limits. Other required plugins stay.
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
	text, _ := json.Marshal(append(names, agent)) // only strings: cannot fail
	m.pod.Annotations[key] = string(text)
}
