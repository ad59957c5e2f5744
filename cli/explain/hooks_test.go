package explain

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/policy"
)

// The pod of a VM with a hook sidecar does not show the VM's devices.
func TestUnknownLock(t *testing.T) {
	const launcher = "metadata: {name: vm, namespace: vms, " +
		"labels: {kubevirt.io: virt-launcher}%s}\n" +
		"spec: {containers: [{name: compute}, {name: hook-sidecar-0, command: [%s]}]}\n"
	p := parsePolicy(t, policy.Observe)
	for name, c := range map[string]struct {
		annotations, command string
		unknown              bool
	}{
		"a hook":         {"", "example-hook", true},
		"Mooring's hook": {"", "/usr/bin/mooring-shim", false},
		"the author needs none": {
			", annotations: {requires-lock.memlock.mooring.dev: 'false'}", "a", false},
	} {
		pod, err := ParsePod([]byte("apiVersion: v1\nkind: Pod\n" +
			fmt.Sprintf(launcher, c.annotations, c.command)))
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(Explain(p, pod, Node{}).Containers[0].Notes, "\n")
		want := `memory lock that the VM needs is unknown, because hook sidecar "hook-sidecar-0"`
		if strings.Contains(notes, want) != c.unknown {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}
