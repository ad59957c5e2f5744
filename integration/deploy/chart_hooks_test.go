package deploy

import (
	"strings"
	"testing"
)

// TestUninstallIsAHook also wants the hook's own objects to be removed. The hook also runs without a
// controller, to clean up after an earlier one.
func TestUninstallIsAHook(t *testing.T) {
	checkHooks(t)
	checkHooks(t, "--set=controller.enabled=false,agent.enabled=false,fence.enabled=false")
}

func checkHooks(t *testing.T, args ...string) {
	t.Helper()
	all, hooks := decode(t, render(t, args...)), 0
	for name, o := range all {
		annotations := o.GetAnnotations()
		if o.GetLabels()["app.kubernetes.io/component"] != "uninstall" {
			if annotations["helm.sh/hook"] != "" {
				t.Errorf("%s is a hook", name)
			}
			continue
		}
		hooks++
		if annotations["helm.sh/hook"] != "pre-delete" ||
			!strings.Contains(annotations["helm.sh/hook-delete-policy"], "hook-succeeded") {
			t.Errorf("%s: annotations %v", name, annotations)
		}
	}
	if hooks != 6 {
		t.Errorf("%d objects, want 6", hooks)
	}
	if len(decode(t, render(t, append(args, "--no-hooks")...)))+hooks != len(all) {
		t.Error("--no-hooks leaves out something else")
	}
}
