package kubernetes

import (
	"slices"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent"
	"github.com/mooring-vm/mooring/cli/uninstall"
)

// TestUninstallRemovesThePathsOfTheAgent compares uninstall's paths on a node with the agent's
// paths.
func TestUninstallRemovesThePathsOfTheAgent(t *testing.T) {
	node, config := uninstall.DefaultNode(), agent.DefaultConfig()
	if node.Root != config.Root || node.BPFDir != config.BPFDir {
		t.Errorf("%s and %s, the agent has %s and %s", node.Root, node.BPFDir, config.Root,
			config.BPFDir)
	}
	hooks := []string{config.Hook}
	for _, arg := range podSpec(t).Containers[0].Args {
		if hook, ok := strings.CutPrefix(arg, "--hook="); ok {
			hooks = append(hooks, hook)
		}
	}
	for _, hook := range hooks {
		if !slices.ContainsFunc(node.Hooks, func(dir string) bool {
			return strings.HasPrefix(hook, dir+"/")
		}) {
			t.Errorf("%s is in none of %q", hook, node.Hooks)
		}
	}
	if len(hooks) != 2 {
		t.Errorf("hooks %q, want the hook of the unit and the hook of the DaemonSet", hooks)
	}
}
