package explain

import (
	"strings"
	"testing"
)

const podHead = "apiVersion: v1\nkind: Pod\nmetadata: {name: vm}\n"

func TestParsePod(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"nothing": {"# only a comment\n", "the file is empty"},
		"no YAML": {"a: [", "pod: no valid YAML"},
		"twice": {podHead + "spec: {containers: [{name: c}]}\n---\nkind: Pod\n",
			"more than one YAML document"},
		"a list": {"- a\n", "want a mapping"},
		"another kind": {"apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 1}\n",
			`apiVersion "apps/v1", kind "Deployment": want one object with apiVersion v1 and ` +
				`kind Pod`},
		"a List of one": {"apiVersion: v1\nkind: List\nitems: []\n",
			`kind "List": want one object`},
		"no kind": {"spec: {}\n", `kind "": want one object`},
		"unknown field": {podHead + "spec: {containers: [{name: c, resource: {}}]}\n",
			`unknown field "spec.containers[0].resource"`},
		"in another case": {podHead + "spec: {Containers: [{name: c}]}\n",
			`unknown field "spec.Containers"`},
		"a number": {"apiVersion: v1\nkind: Pod\nmetadata: {name: vm, annotations: " +
			"{a: 1}}\n", "metadata.annotations: number: want a string; quote it"},
		"duplicate key": {podHead + "spec: {containers: [{name: c, name: d}]}\n",
			`"name" already set`},
		"no name": {"apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}]}\n",
			"metadata.name: missing"},
		"no containers": {podHead + "spec: {}\n", "spec.containers: missing"},
		"a name twice": {podHead + "spec: {initContainers: [{name: c}], containers: " +
			"[{name: c}]}\n", `container name "c": want a name, each once`},
		"bad quantity": {podHead + "spec: {containers: [{name: c, resources: {limits: " +
			"{memory: 1Gb}}}]}\n", "quantities must match"},
		"far too large": {strings.Repeat("#", MaxPodSize+1), "more than"},
		"all faults at once": {podHead + "spec: {containers: [{name: c, x: 1}], z: 2}\n",
			`unknown field "spec.z"`},
	} {
		_, err := ParsePod([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, test.want)
		}
	}
	if _, err := ParsePod([]byte("---\n" + podHead + "spec: {containers: [{name: c}]}\nstatus: " +
		"{phase: Running}\n---\n")); err != nil {
		t.Errorf("a pod as the API server has it: %v", err)
	}
}

func FuzzParsePod(f *testing.F) {
	f.Add([]byte(podHead + "spec: {containers: [{name: c}]}"))
	f.Add([]byte(podHead + "spec: {initContainers: [{name: i, restartPolicy: Always}], " +
		"containers: [{name: c, resources: {limits: {memory: 1e30}}}]}"))
	f.Add([]byte("apiVersion: v1\nkind: [Pod]"))
	f.Add([]byte("- a\n---\n- b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pod, err := ParsePod(data)
		if err != nil {
			return
		}
		for _, c := range containersOf(pod) {
			memoryLimit(pod, c)
		}
	})
}

func TestMemoryLimit(t *testing.T) {
	pod, err := ParsePod([]byte(podHead + `spec:
  resources: {limits: {memory: 3Gi}}
  initContainers: [{name: i}, {name: s, restartPolicy: Always, resources: {limits: {memory: "0"}}}]
  containers: [{name: c, resources: {limits: {memory: 1500m}}}, {name: d, resources: {requests: {memory: 1Gi}}}]
  ephemeralContainers: [{name: e}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		name    string
		kind    Kind
		limit   int64
		fromPod bool
	}{
		{"i", Init, 3 << 30, true}, {"s", Sidecar, 3 << 30, true}, {"c", Regular, 2, false},
		{"d", Regular, 3 << 30, true}, {"e", Ephemeral, 3 << 30, true},
	}
	got := containersOf(pod)
	if len(got) != len(want) {
		t.Fatalf("got %d containers, want %d", len(got), len(want))
	}
	for i, w := range want {
		limit, fromPod := memoryLimit(pod, got[i])
		if got[i].Name != w.name || got[i].kind != w.kind || limit != w.limit ||
			fromPod != w.fromPod {
			t.Errorf("got %s (%s) with %d, %t; want %+v", got[i].Name, got[i].kind,
				limit, fromPod, w)
		}
	}
	pod.Spec.Resources = nil
	if limit, fromPod := memoryLimit(pod, got[0]); limit != 0 || fromPod {
		t.Errorf("without any limit: %d, %t", limit, fromPod)
	}
}

func TestCPUs(t *testing.T) {
	pod, err := ParsePod([]byte(podHead + `spec:
  resources: {limits: {cpu: 8}}
  containers: [{name: pods}, {name: own, resources: {limits: {cpu: 1500m}}}, {name: more, resources: {requests: {cpu: 9}}}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{8000, 1500, 9000} {
		if got := cpus(pod, containersOf(pod)[i]); got != want {
			t.Errorf("%s: %d, want %d", containersOf(pod)[i].Name, got, want)
		}
	}
	pod.Spec.Resources = nil
	if got := cpus(pod, containersOf(pod)[0]); got != 0 {
		t.Errorf("without limit or request: %d", got)
	}
}
