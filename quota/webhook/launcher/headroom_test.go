package launcher

import (
	"slices"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
)

// libvirt counts the whole virtio-mem device of a prepared domain at its start. The lock covers the
// capacity that the headroom hook gives the domain.
func TestLockOfPreparedDomain(t *testing.T) {
	hook := func(args string) func(*kubevirtv1.VirtualMachineInstance) {
		return func(vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Annotations = map[string]string{"hooks.kubevirt.io/hookSidecars": `[{"image": "a"},
				{"image": "mooring-shim", "command": ["mooring-shim", "hook"], "args": [` +
				args + `]}]`}
		}
	}
	for _, c := range []struct{ args, guest, warning string }{
		{`"--memory-capacity", "4096", "--cpu-capacity", "8"`, "4Gi", ""},
		{`"--memory-capacity=4096"`, "4Gi", ""},
		{`"--memory-capacity=1024"`, "2Gi", ""}, // less than the VM has
		{`"--cpu-capacity=8"`, "2Gi", "--memory-capacity"},
		{`"--memory-capacity=0"`, "2Gi", "--memory-capacity"},
		{`"--memory-capacity"`, "2Gi", "--memory-capacity"},
	} {
		out, err := Mutate(input(newPod(nil), newVMI(withGPUs(1), hook(c.args))))
		if err != nil || out.Pod == nil {
			t.Fatalf("%s: %+v, %v", c.args, out, err)
		}
		warnings := strings.Join(slices.DeleteFunc(out.Warnings, func(w string) bool {
			return strings.Contains(w, `hook sidecar "a"`) // the other hook
		}), "\n")
		got := out.Pod.Annotations[api.GuestMemoryKey]
		if got != c.guest || !strings.Contains(warnings, c.warning) ||
			(warnings != "") != (c.warning != "") {
			t.Errorf("%s: guest memory %s, warnings %q, want %s", c.args, got, warnings, c.guest)
		}
		if c.guest != "4Gi" {
			continue
		}
		guest := 4 * gi
		limit, err := memlock.ForLauncher(memlock.Input{Request: api.Request{
			RequiresLock: new(true), GuestMemory: &guest, Devices: api.Devices{VFIO: 1},
		}})
		if err != nil || limit.Bytes < 5*gi {
			t.Errorf("the agent's limit is %d, %v, want libvirt's 5 GiB", limit.Bytes, err)
		}
	}
}
