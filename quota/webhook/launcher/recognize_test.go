package launcher

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
)

func TestIsLauncher(t *testing.T) {
	if name, uid, ok := IsLauncher(newPod(nil)); !ok || name != "vm" || uid != "vmi-uid" {
		t.Errorf("got %s, %s, %v", name, uid, ok)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"no label": func(p *corev1.Pod) { delete(p.Labels, kubevirtv1.AppLabel) },
		"another label": func(p *corev1.Pod) {
			p.Labels[kubevirtv1.AppLabel] = "hotplug-disk"
		},
		"no owner":      func(p *corev1.Pod) { p.OwnerReferences = nil },
		"no controller": func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil },
		"another owner": func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" },
		"another group": func(p *corev1.Pod) {
			p.OwnerReferences[0].APIVersion = "example.org/v1"
		},
		"no group": func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "a/b/c" },
		"another's label": func(p *corev1.Pod) {
			p.Labels[kubevirtv1.CreatedByLabel] = "other"
		},
		"binds volumes, alone": func(p *corev1.Pod) {
			p.Annotations = map[string]string{kubevirtv1.EphemeralProvisioningObject: "true"}
		},
	} {
		pod := newPod(nil)
		change(pod)
		if _, _, ok := IsLauncher(pod); ok {
			t.Errorf("%s: taken for a launcher", name)
		}
	}
}

func TestReadReserved(t *testing.T) {
	for name, c := range map[string]struct {
		fields any
		want   Reserved
		fault  string
	}{
		"none":  {nil, Reserved{}, ""},
		"empty": {map[string]any{}, Reserved{}, ""},
		"text": {map[string]any{"requiresLock": "true", "value": "1Gi"},
			Reserved{true, gi}, ""},
		"flag and number": {map[string]any{"requiresLock": true, "value": int64(5)},
			Reserved{true, 5}, ""},
		"whole fraction": {map[string]any{"value": 5e9}, Reserved{Value: 5e9}, ""},
		"no":             {map[string]any{"requiresLock": "false"}, Reserved{}, ""},
		"the later words": {map[string]any{"memLock": "Required", "addedOverhead": "1Gi"},
			Reserved{}, ""},
		"no mapping": {"x", Reserved{}, "reservedOverhead: want a mapping"},
		"no flag": {map[string]any{"requiresLock": "yes"}, Reserved{},
			`requiresLock: "yes": want true or false`},
		"no quantity": {map[string]any{"value": "1e3"}, Reserved{},
			`value: "1e3": want a whole number`},
		"negative": {map[string]any{"value": int64(-1)}, Reserved{},
			"value: -1: want a quantity"},
		"fraction": {map[string]any{"value": 0.5}, Reserved{},
			"value: 0.5: want a quantity"},
		"another mapping": {map[string]any{"requiresLock": map[string]any{}}, Reserved{},
			"requiresLock: map"},
		"a list of values": {map[string]any{"value": []any{}}, Reserved{},
			"value: []interface {}{}: want a quantity"},
	} {
		memory := map[string]any{}
		if c.fields != nil {
			memory["reservedOverhead"] = c.fields
		}
		got, err := ReadReserved(
			map[string]any{"spec": map[string]any{"domain": map[string]any{"memory": memory}}})
		if got != c.want || (err == nil) != (c.fault == "") || err != nil &&
			!strings.Contains(err.Error(), "spec.domain.memory.reservedOverhead") || err != nil &&
			!strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
