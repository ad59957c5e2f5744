package launcher

import (
	"encoding/json"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// For any VM, pod and source launcher: no panic, and no change in a second pass.
func FuzzMutate(f *testing.F) {
	source := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
	texts := func(parts ...any) (all []string) {
		for _, part := range parts {
			all = append(all, asJSON(f, part))
		}
		return all
	}
	for _, seed := range [][]string{
		texts(newPod(nil), newVMI(withGPUs(1)), source),
		texts(newTarget(map[string]string{api.InjectSidecarKey: "follow-limits",
			api.InjectPreStopKey: "true"}), newVMI(), source),
		texts(newTarget(map[string]string{api.ResizeMemoryKey: "8Ei", api.ValueKey: "unlimited"}),
			newVMI(withGPUs(3)), newSource(infeasible)),
		{"{}", "{}", "{}"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, podText, vmiText, sourceText string) {
		in := input(&corev1.Pod{}, &kubevirtv1.VirtualMachineInstance{})
		var source corev1.Pod
		if errors.Join(json.Unmarshal([]byte(podText), in.Pod), json.Unmarshal([]byte(vmiText),
			in.VMI), json.Unmarshal([]byte(sourceText), &source)) != nil {
			return
		}
		in.Launchers = []corev1.Pod{source}
		out, err := Mutate(in)
		if err != nil || out.Pod == nil {
			return
		}
		in.Pod = out.Pod
		if again, err := Mutate(in); err != nil || again.Pod != nil {
			t.Errorf("a second pass made of\n%s\nthis:\n%s, %v", asJSON(t, out.Pod),
				asJSON(t, again.Pod), err)
		}
	})
}

func FuzzReadReserved(f *testing.F) {
	f.Add(
		`{"spec":{"domain":{"memory":{"reservedOverhead":{"requiresLock":"true","value":"1Gi"}}}}}`)
	f.Add(`{"spec":{"domain":{"memory":{"reservedOverhead":{"requiresLock":[],"value":1e300}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		var object map[string]any
		if json.Unmarshal([]byte(text), &object) != nil {
			return
		}
		if r, err := ReadReserved(object); r.Value < 0 || err != nil && r.Value != 0 {
			t.Errorf("%q: got %+v, %v", text, r, err)
		}
	})
}
