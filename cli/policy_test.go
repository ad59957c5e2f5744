package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/cli/explain"
)

const policyHead = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enforce\n"

// write puts files into a new directory and makes it the current one.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runOn is run with standard input, and without an agent.
func runOn(t *testing.T, in string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.In = strings.NewReader(in)
	code := program.Run(t.Context(),
		append(args, "--socket", filepath.Join(t.TempDir(), "none.sock")))
	return result{code, out.String(), errOut.String()}
}

func TestPolicyCheck(t *testing.T) {
	write(t, map[string]string{
		"good.yaml": policyHead + "rules: [{name: a, namespaces: ['*'], cgroupFiles: [cpu.max]}]\n",
		"bad.yaml": policyHead + "moe: x\nrules: [{name: a, namespaces: [a], memlock: {max: " +
			"16Gb}}]\n",
	})
	for name, test := range map[string]struct {
		in   string
		args []string
		want result // out and errOut: a part of it
	}{
		"good": {"", []string{"good.yaml"},
			result{ExitOK, "good.yaml is a valid node policy: mode enforce, rules: 1\nwarning: " +
				"rules[0].cgroupFiles: kubelet writes cpu.max", ""}},
		"all faults": {"", []string{"bad.yaml"},
			result{ExitFailure, "", `error: node policy bad.yaml: moe: unknown field` + "\n" +
				`rules[0].memlock.max: "16Gb": want`}},
		"standard input": {policyHead, []string{"-"},
			result{ExitOK, "standard input is a valid node policy: mode enforce, rules: 0\n" +
				"warning: rules: there are none", ""}},
		"bad input": {"a: [", []string{"-"},
			result{ExitFailure, "", "node policy on standard input: policy: no valid YAML"}},
		"no file": {"", []string{"none.yaml"},
			result{ExitFailure, "", "read node policy: open none.yaml"}},
		"no argument": {"", nil, result{ExitUsage, "", "got 0 arguments, want FILE"}},
	} {
		got := runOn(t, test.in, append([]string{"policy", "check"}, test.args...)...)
		if got.code != test.want.code || !strings.HasPrefix(got.out, test.want.out) ||
			!strings.Contains(got.errOut, test.want.errOut) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
	got := runOn(t, "", "policy", "check", "bad.yaml", "-o", "json")
	var report policycheck.Report
	if err := json.Unmarshal([]byte(got.out), &report); err != nil {
		t.Fatal(err)
	}
	if got.code != ExitFailure || report.Valid || len(report.Faults) != 2 ||
		report.Faults[1].Path != "rules[0].memlock.max" {
		t.Errorf("%+v", got)
	}
}

const podText = `apiVersion: v1
kind: Pod
metadata:
  name: vm
  annotations:
    launcher.mooring.dev: compute
    requires-lock.memlock.mooring.dev: "true"
    guest-memory.memlock.mooring.dev: 4Gi
    pids.max.cgroup.mooring.dev: "100"
spec:
  initContainers: [{name: setup}]
  containers: [{name: compute, resources: {limits: {memory: 5Gi}}}]
`

func TestExplainCommand(t *testing.T) {
	arm64Pod := strings.Replace(podText, "spec:\n",
		"spec:\n  nodeSelector: {kubernetes.io/arch: arm64}\n", 1)
	write(t, map[string]string{
		"pod.yaml":    podText,
		"placed.yaml": strings.Replace(podText, "name: vm\n", "name: vm\n  namespace: vms\n", 1),
		"policy.yaml": policyHead + "memlock: {nodeMax: 10Gi}\nrules:\n" +
			"- {name: few, namespaces: [lab], serviceAccounts: [x]}\n" +
			"- {name: all, namespaces: ['*'], memlock: {max: 8Gi}, cgroupFiles: [pids.max]}\n",
		"observe.yaml": strings.Replace(policyHead, "enforce", "observe", 1),
	})
	for name, test := range map[string]struct {
		in   string
		args []string
		code int
		want string // part of the output
	}{
		"created": {"", []string{"policy.yaml"}, ExitOK,
			"Pod:              default/vm\n"},
		"namespace": {"", []string{"policy.yaml", "-n", "lab"}, ExitOK,
			`"few"  no       service account "default" is none of x`},
		"the same namespace": {"", []string{"policy.yaml", "-n", "vms", "--pod=placed.yaml"},
			ExitOK, "vms/vm"},
		"another namespace": {"", []string{"policy.yaml", "-n", "lab", "--pod=placed.yaml"},
			ExitUsage, `--namespace "lab": the pod's file has namespace "vms"`},
		"pod on stdin": {podText, []string{"policy.yaml", "--pod=-"}, ExitOK,
			"Max locked memory         4606394368"},
		"policy on stdin": {policyHead, []string{"-"}, ExitRefused,
			"error: pod default/vm would be refused"},
		"both": {policyHead, []string{"-", "--pod=-"}, ExitUsage, "not both"},
		"no pod": {"", []string{"policy.yaml", "--pod="}, ExitUsage,
			"want a file with the pod"},
		"absent pod": {"", []string{"policy.yaml", "--pod=none"}, ExitFailure,
			"read pod: open none"},
		"another kind": {policyHead, []string{"policy.yaml", "--pod=-"}, ExitFailure,
			`kind "NodePolicy": want one object`},
		"no policy": {"", []string{"none"}, ExitFailure, "read node policy"},
		"full node": {"", []string{"policy.yaml", "--granted=7Gi"}, ExitRefused,
			"others have 7Gi"},
		"invalid amount": {"", []string{"policy.yaml", "--granted=-1"}, ExitUsage,
			"--granted"},
		"invalid memory": {"", []string{"policy.yaml", "--node-memory=0"}, ExitUsage,
			"--node-memory"},
		"node memory": {"", []string{"policy.yaml", "--node-memory=64Gi"}, ExitOK,
			"memory 64Gi"},
		"architecture": {"", []string{"policy.yaml", "--architecture=arm64"}, ExitOK,
			"arm64, memory"},
		"architecture in the overhead": {"", []string{"policy.yaml", "--architecture=arm64"},
			ExitOK, "Max locked memory         4740612096"},
		"architecture of the pod": {arm64Pod, []string{"policy.yaml", "--pod=-"}, ExitOK,
			"Max locked memory         4740612096"},
		"architecture by flag first": {arm64Pod, []string{"policy.yaml", "--pod=-",
			"--architecture=amd64"}, ExitOK, "Max locked memory         4606394368"},
		"invalid architecture": {"", []string{"policy.yaml", "--architecture=x86_64"}, ExitUsage,
			`--architecture: "x86_64": want amd64, arm64, s390x or ppc64le`},
		"no memory known": {"", []string{"policy.yaml", "--node-memory=unknown"}, ExitOK,
			"memory unknown"},
		"no such controller": {"", []string{"policy.yaml", "--controllers=cpu,io"}, ExitRefused,
			"no pids controller, only cpu, io"},
		"controllers unknown": {"", []string{"policy.yaml", "--controllers=unknown"}, ExitOK,
			"controllers unknown"},
		"observe": {"", []string{"observe.yaml"}, ExitOK, "In mode enforce it would " +
			"be refused:\n  mooring refuses container"},
		"without kubernetes": {"", []string{"policy.yaml", "-n", "lab", "--without-kubernetes"},
			ExitRefused, "names service accounts"},
		"init container": {"", []string{"policy.yaml"}, ExitOK, "Init container \"setup\": left " +
			"alone\n  because annotation launcher.mooring.dev names container \"compute\"\n"},
	} {
		args := append([]string{"policy", "explain", "--controllers=pids", "--pod=pod.yaml"},
			test.args...)
		got := runOn(t, test.in, args...)
		if got.code != test.code || !strings.Contains(got.out+got.errOut, test.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s%s", name, got.code, test.code,
				test.want, got.out, got.errOut)
		}
	}
	got := runOn(t, "", "policy", "explain", "--pod=pod.yaml", "policy.yaml", "-o", "json",
		"--granted=7Gi")
	var e explain.Explanation
	if err := json.Unmarshal([]byte(got.out), &e); err != nil || got.code != ExitRefused {
		t.Fatalf("%+v: %v", got, err)
	}
	if !e.Refused || e.Containers[1].Outcome != explain.Refused || e.Node.Granted != 7<<30 {
		t.Errorf("%+v", e)
	}
}
