package launcher

import (
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

func withPlugin(vmi *kubevirtv1.VirtualMachineInstance) {
	vmi.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{Name: "red",
		Binding: &kubevirtv1.PluginBinding{Name: "vdpa"}}}
}

func withForeignHook(vmi *kubevirtv1.VirtualMachineInstance) {
	vmi.Annotations = map[string]string{
		"hooks.kubevirt.io/hookSidecars": `[{"image": "example.org/nvme"}]`}
}

// The webhook warns about a lock that the VMI does not show, and writes the known part only.
func TestWarnsAboutAnUnknownLock(t *testing.T) {
	for name, c := range map[string]struct {
		change      []func(*kubevirtv1.VirtualMachineInstance)
		annotations map[string]string
		warning     string // part of it; empty: none
		devices     string
	}{
		"plugin": {change: []func(*kubevirtv1.VirtualMachineInstance){withPlugin},
			warning: `unknown, because network binding plugin "vdpa"`},
		"hook": {change: []func(*kubevirtv1.VirtualMachineInstance){withForeignHook},
			warning: `unknown, because hook sidecar "example.org/nvme"`},
		"plugin and a GPU": {
			change:  []func(*kubevirtv1.VirtualMachineInstance){withPlugin, withGPUs(1)},
			warning: `unknown, at least `, devices: "vfio=1"},
		"the author names devices": {
			change:      []func(*kubevirtv1.VirtualMachineInstance){withPlugin},
			annotations: map[string]string{api.DevicesKey: "vdpa=1"}, devices: "vdpa=1"},
		"the author needs none": {
			change:      []func(*kubevirtv1.VirtualMachineInstance){withPlugin},
			annotations: map[string]string{api.RequiresLockKey: "false"}},
		"nothing is missing": {},
	} {
		out, err := Mutate(input(newPod(c.annotations), newVMI(c.change...)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		warnings := strings.Join(out.Warnings, "\n")
		if (warnings != "") != (c.warning != "") || !strings.Contains(warnings, c.warning) {
			t.Errorf("%s: warnings %q, want %q", name, warnings, c.warning)
		}
		got := ""
		if out.Pod != nil {
			got = out.Pod.Annotations[api.DevicesKey]
		}
		if got != c.devices {
			t.Errorf("%s: devices %q, want %q", name, got, c.devices)
		}
	}
}
