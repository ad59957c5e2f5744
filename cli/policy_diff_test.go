package cli

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/cli/policydiff"
)

const nodesPath = "/api/v1/nodes"

// locked returns a launcher with a lock of 4Gi by rule "a", and its facts.
func locked(name string) agentapi.Launcher {
	l := running("vms", name, 0, agentapi.Setting{Name: agentapi.MemlockSetting, Requested: "4Gi",
		Given: "4Gi", Status: agentapi.StatusApplied})
	l.Limits = podapi.Limits{Memory: 5 << 30}
	l.Facts = &agentapi.Facts{Annotations: lockAnnotations(), ServiceAccount: new("default")}
	return l
}

func lockAnnotations() map[string]string {
	return map[string]string{api.LauncherKey: "compute", api.RequiresLockKey: "true",
		api.GuestMemoryKey: "4Gi", api.OverheadKey: "0"}
}

const (
	allowing = policyHead + "rules: [{name: a, namespaces: [vms], memlock: {max: 8Gi}}]\n"
	refusing = policyHead + "rules: [{name: a, namespaces: [vms], memlock: {max: 1Gi}}]\n"
)

func TestPolicyDiffOnANode(t *testing.T) {
	old := locked("old")
	old.Facts = nil
	for name, test := range map[string]struct {
		launchers []agentapi.Launcher
		policy    string
		args      []string
		code      int
		want      string // part of the output
	}{
		"no change": {[]agentapi.Launcher{locked("vm")}, allowing, nil, ExitOK,
			"no change; launchers: 1\n"},
		"refused": {[]agentapi.Launcher{locked("vm")}, refusing, nil, ExitRefused,
			"vms        vm   compute    4Gi    refused\n\nvms/vm:\n  mooring refuses container"},
		"observe": {[]agentapi.Launcher{locked("vm")},
			strings.Replace(allowing, "enforce", "observe", 1), nil, ExitChanges,
			"4Gi    observe: 4Gi"},
		"another namespace": {[]agentapi.Launcher{locked("vm")}, refusing, []string{"-n", "lab"},
			ExitOK, "no change; launchers: 0\n"},
		"an older agent": {[]agentapi.Launcher{old}, allowing, nil, ExitChanges,
			"4Gi    unknown\n\nvms/old:\n  the agent is older"},
		"no policy":      {nil, "a: [", nil, ExitFailure, "no valid YAML"},
		"unknown format": {nil, allowing, []string{"-o", "xml"}, ExitUsage, "xml"},
	} {
		write(t, map[string]string{"policy.yaml": test.policy})
		a := startAgent(t, test.launchers...)
		got := run(t.Context(), t, a.socket, append([]string{"policy", "diff", "policy.yaml"},
			test.args...)...)
		if got.code != test.code || !strings.Contains(got.out+got.errOut, test.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", name, got.code, test.code,
				test.want, got.out, got.errOut)
		}
	}
}

func TestPolicyDiffAsJSON(t *testing.T) {
	write(t, map[string]string{"policy.yaml": refusing})
	a := startAgent(t, locked("vm"))
	got := run(t.Context(), t, a.socket, "policy", "diff", "policy.yaml", "-o", "json")
	var report policydiff.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err)
	}
	if got.code != ExitRefused || report.Mode != "enforce" || len(report.Changes) != 1 ||
		report.Changes[0].Kind != policydiff.Refused || !report.Changes[0].Next.Refused() {
		t.Errorf("%+v", got)
	}
}

// lockedPod is the pod of [locked].
func lockedPod(name string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name,
		UID: "uid-" + "vm", Annotations: lockAnnotations()}}
	pod.Spec.Containers = []corev1.Container{{Name: "compute",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse("5Gi")}}}}
	return pod
}

func lockedFleet(t *testing.T) map[string]any {
	t.Helper()
	state := stateOf("node-1", 0, true)
	report, err := v1alpha1.LauncherReportOf(locked("vm"))
	if err != nil {
		t.Fatal(err)
	}
	state.Status.Launchers = []v1alpha1.LauncherReport{report}
	answers := fleetAnswers([]v1alpha1.NodeState{state}, []corev1.Pod{lockedPod("vm")})
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1",
		Labels: map[string]string{"pool": "gpu"}}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}
	answers[nodesPath] = corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
		Kind: "NodeList"}, Items: []corev1.Node{node}}
	return answers
}

func TestPolicyDiffInACluster(t *testing.T) {
	object := func(selector, most string) string {
		return "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec:\n" +
			"  mode: enforce\n  nodeSelector: {matchLabels: {pool: " + selector + "}}\n" +
			"  rules: [{name: a, namespaces: [vms], memlock: {max: " + most + "}}]\n"
	}
	forbidden := func(resource string) *metav1.Status {
		return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden,
			Code:    http.StatusForbidden,
			Message: resource + ` is forbidden: User "x" cannot list resource`}
	}
	small := func(answers map[string]any) {
		list := answers[nodesPath].(corev1.NodeList)
		list.Items[0].Status.Capacity[corev1.ResourceMemory] = resource.MustParse("1Gi")
	}
	for name, test := range map[string]struct {
		policy string
		change func(answers map[string]any)
		code   int
		want   string // part of the output
	}{
		"no change":         {allowing, nil, ExitOK, "no change; launchers: 1\n"},
		"refused":           {refusing, nil, ExitRefused, "refused  node-1\n"},
		"selected node":     {object("gpu", "1Gi"), nil, ExitRefused, "refused  node-1\n"},
		"node not selected": {object("cpu", "1Gi"), nil, ExitOK, "no change; launchers: 0\n"},
		"limit above memory": {allowing + "memlock: {requireMemoryLimit: true}\n", small,
			ExitRefused, "more than the node's memory"},
		"no pod": {allowing, func(answers map[string]any) {
			answers[podsOfAll] = corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1",
				Kind: "PodList"}}
		}, ExitChanges, "the cluster has no pod with the UID"},
		"no right to pods": {refusing,
			func(answers map[string]any) { answers[podsOfAll] = forbidden("pods") },
			ExitPermission, `requires a role with the verb "list" for pods in all namespaces`},
		"no right to nodes": {refusing,
			func(answers map[string]any) { answers[nodesPath] = forbidden("nodes") },
			ExitRefused, "a memory limit above the node's memory is not noticed"},
		"selector without a right to nodes": {object("gpu", "1Gi"),
			func(answers map[string]any) { answers[nodesPath] = forbidden("nodes") },
			ExitPermission, "cannot list"},
	} {
		write(t, map[string]string{"policy.yaml": test.policy})
		answers := maps.Clone(lockedFleet(t))
		if test.change != nil {
			test.change(answers)
		}
		serveCluster(t, answers)
		code, out, errOut := runPlugin(t, "policy", "diff", "-A", "policy.yaml")
		if code != test.code || !strings.Contains(out+errOut, test.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", name, code, test.code, test.want,
				out, errOut)
		}
	}
}

// The command of the suggestion gives a policy that policy check and policy diff accept.
func TestPolicySuggest(t *testing.T) {
	write(t, nil)
	a := startAgent(t, locked("vm"))
	got := run(t.Context(), t, a.socket, "policy", "suggest")
	want := policyHead + "rules:\n- name: \"vms\"\n  namespaces: [\"vms\"]\n  memlock: {max: 4Gi}\n"
	if got.code != ExitOK || got.out != want || got.errOut != "" {
		t.Fatalf("got %+v, want %s", got, want)
	}
	if checked := runOn(t, got.out, "policy", "check", "-"); checked.code != ExitOK {
		t.Errorf("check: %+v", checked)
	}
	write(t, map[string]string{"policy.yaml": got.out})
	if diff := run(t.Context(), t, a.socket, "policy", "diff", "policy.yaml"); diff.code != ExitOK {
		t.Errorf("diff: %+v", diff)
	}
	old := locked("old")
	old.Facts = nil
	b := startAgent(t, old)
	got = run(t.Context(), t, b.socket, "policy", "suggest")
	if got.code != ExitOK || !strings.HasPrefix(got.errOut, "no rule for vms/old: the agent is") {
		t.Errorf("without facts: %+v", got)
	}
}
