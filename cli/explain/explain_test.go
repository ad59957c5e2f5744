package explain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

const testPolicy = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
memlock: {nodeMax: 40Gi}
lifecycle: {libvirt: {}}
profiles:
- {name: kubevirt, podLabels: {kubevirt.io: virt-launcher}, container: compute}
rules:
- {name: accounts, namespaces: [vms], serviceAccounts: ["vm-*"], memlock: {max: 1Gi}}
- {name: tenants, namespaces: ["vms", "tenant-*"], memlock: {max: 16Gi, unlimited: true}, cgroupFiles: [memory.high, pids.max], domains: ["vms-*"]}
`

func parsePolicy(t testing.TB, mode policy.Mode) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(strings.Replace(testPolicy, "enforce", string(mode), 1)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// launcherPod returns a pod with the containers setup, compute and log.
func launcherPod(annotations map[string]string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.Annotations = "vm", "tenant-a", annotations
	pod.Labels = map[string]string{"kubevirt.io": "virt-launcher"}
	pod.Spec.InitContainers = []corev1.Container{{Name: "setup"}}
	pod.Spec.Containers = []corev1.Container{{Name: "compute"}, {Name: "log"}}
	return pod
}

func findContainer(t *testing.T, e Explanation, name string) Container {
	t.Helper()
	for _, c := range e.Containers {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no container %q in %+v", name, e)
	return Container{}
}

func TestExplain(t *testing.T) {
	pod := launcherPod(map[string]string{
		"devices.memlock.mooring.dev": "vfio=1", "guest-memory.memlock.mooring.dev": "4Gi",
		"memory.high.cgroup.mooring.dev": "9Gi",
	})
	pod.Namespace = "vms"
	e := Explain(parsePolicy(t, policy.Enforce), pod, Node{})
	c := findContainer(t, e, "compute")
	wantRules := []RuleTrace{
		{"accounts", false, `service account "default" is none of vm-*`},
		{"tenants", true, "it is the first that matches"},
	}
	if diff := cmp.Diff(wantRules, c.Rules); diff != "" || c.Rule != "tenants" {
		t.Errorf("rule %q (-want +got)\n%s", c.Rule, diff)
	}
	wantKernel := []KernelFile{
		{"limits", "Max locked memory         5368709120           5368709120           bytes"},
		{"memory.high", "9663676416"},
	}
	if diff := cmp.Diff(wantKernel, c.Kernel); diff != "" || c.Outcome != Given || e.Refused {
		t.Errorf("%s, %t (-want +got)\n%s", c.Outcome, e.Refused, diff)
	}
	if c.Why != `profile "kubevirt" of the node policy names it` || len(c.Settings[0].Terms) != 2 {
		t.Errorf("why %q, settings %+v", c.Why, c.Settings)
	}
	for _, name := range []string{"setup", "log"} {
		c := findContainer(t, e, name)
		if c.Launcher || c.Outcome != LeftAlone ||
			c.Why != `profile "kubevirt" of the node policy names container "compute"` ||
			c.Settings != nil {
			t.Errorf("%+v", c)
		}
	}
}

// A domain needs a rule, also as the only request.
func TestExplainDomain(t *testing.T) {
	for declared, want := range map[string]Outcome{"vms-1": Given, "db-1": Refused} {
		c := findContainer(t,
			Explain(parsePolicy(t, policy.Enforce),
				launcherPod(map[string]string{"domain.lifecycle.mooring.dev": declared}), Node{}),
			"compute")
		if c.Outcome != want || c.Rule != "tenants" || len(c.Rules) != 2 ||
			(c.Domain == declared) != (want == Given) {
			t.Errorf("%s: %+v", declared, c)
		}
	}
}

func TestOutcomes(t *testing.T) {
	asks := map[string]string{"requires-lock.memlock.mooring.dev": "true",
		"guest-memory.memlock.mooring.dev": "32Gi", decide.KubeVirtOverheadKey: "0"}
	for name, test := range map[string]struct {
		mode    policy.Mode
		change  func(*corev1.Pod, *Node)
		want    Outcome
		refusal string
		remarks string // a part of one
	}{
		"refused": {policy.Enforce, nil, Refused,
			`rule "tenants" of the node policy allows up to 16Gi`, "but the pod asks for 32Gi"},
		"would be refused": {policy.Observe, nil, Observed,
			`mooring refuses container "compute" of pod tenant-a/vm: `, "observe mode, nothing " +
				"is done: mooring refuses"},
		"no request": {policy.Enforce, func(p *corev1.Pod, _ *Node) { p.Annotations = nil },
			Given, "", ""},
		"observes": {policy.Observe, requestLess, Observed, "",
			"would set RLIMIT_MEMLOCK to 1Gi"},
		"is allowed": {policy.Enforce, requestLess, Given, "", ""},
		"node is full": {policy.Enforce, func(p *corev1.Pod, n *Node) {
			requestLess(p, n)
			n.Granted = 40 << 30
		}, Refused, "others have 40Gi", ""},
		"no controller": {policy.Enforce, func(p *corev1.Pod, n *Node) {
			pids(p, n)
			n.Controllers = []string{"cpu"}
		}, Refused, "no pids controller", ""},
		"has controller": {policy.Enforce, func(p *corev1.Pod, n *Node) {
			pids(p, n)
			n.Controllers = []string{"pids"}
		}, Given, "", ""},
		"too little node": {policy.Enforce, func(p *corev1.Pod, n *Node) {
			unlimited(p, n)
			n.Memory = 1 << 30
		}, Refused, "more than the node's memory of 1Gi", ""},
		"large node": {policy.Enforce, unlimited, Given, "", ""},
	} {
		pod, node := launcherPod(asks), Node{}
		if test.change != nil {
			test.change(pod, &node)
		}
		e := Explain(parsePolicy(t, test.mode), pod, node)
		c := findContainer(t, e, "compute")
		if c.Outcome != test.want || e.Refused != (test.want == Refused) ||
			!strings.Contains(c.Refusal, test.refusal) ||
			(test.refusal == "") != (c.Refusal == "") {
			t.Errorf("%s: %s, refused %t: %q", name, c.Outcome, e.Refused, c.Refusal)
		}
		if test.remarks != "" &&
			(len(c.Remarks) == 0 || !strings.Contains(c.Remarks[0].Message, test.remarks)) {
			t.Errorf("%s: remarks %+v lack %q", name, c.Remarks, test.remarks)
		}
		if (c.Outcome != Given) != (c.Kernel == nil) && c.Settings != nil {
			t.Errorf("%s: %s, and the kernel would show %v", name, c.Outcome, c.Kernel)
		}
	}
}

func requestLess(p *corev1.Pod, _ *Node) {
	p.Annotations = map[string]string{"requires-lock.memlock.mooring.dev": "true",
		"guest-memory.memlock.mooring.dev": "1Gi", decide.KubeVirtOverheadKey: "0"}
}

func pids(p *corev1.Pod, _ *Node) {
	p.Annotations = map[string]string{"pids.max.cgroup.mooring.dev": "10"}
}

func unlimited(p *corev1.Pod, _ *Node) {
	p.Annotations = map[string]string{"requires-lock.memlock.mooring.dev": "true",
		"value.memlock.mooring.dev": "unlimited"}
	p.Spec.Containers[0].Resources.Limits = memory("2Gi")
}

func TestAccountsUnknown(t *testing.T) {
	pod := launcherPod(nil)
	requestLess(pod, nil)
	pod.Namespace = "vms"
	c := findContainer(t, Explain(parsePolicy(t, policy.Enforce), pod, Node{AccountsUnknown: true}),
		"compute")
	if c.Outcome != Refused || len(c.Rules) != 1 || c.Rules[0].Decides ||
		!strings.Contains(c.Rules[0].Why, "is not known to the agent") {
		t.Errorf("%+v", c)
	}
}

// Annotations without effect, or with another one than their author expects, lead to a remark.
func TestPodRemarks(t *testing.T) {
	for name, test := range map[string]struct {
		labels, annotations map[string]string
		want                []string
	}{
		"plain": {nil, nil, nil},
		"stray": {nil, map[string]string{"value.memlock.mooring.dev": "1Gi"},
			[]string{"are ignored"}},
		"unknown container": {nil, map[string]string{"launcher.mooring.dev": "comptue"},
			[]string{`container "comptue", which the pod does not have`}},
		"not the VM": {map[string]string{"kubevirt.io": "virt-launcher"},
			map[string]string{"launcher.mooring.dev": "log"}, []string{"the annotation holds"}},
	} {
		pod := launcherPod(test.annotations)
		pod.Labels = test.labels
		got := Explain(parsePolicy(t, policy.Enforce), pod, Node{}).Remarks
		if len(got) != len(test.want) {
			t.Errorf("%s: %+v, want %q", name, got, test.want)
			continue
		}
		for i, r := range got {
			if !strings.Contains(r.Message, test.want[i]) {
				t.Errorf("%s: %q lacks %q", name, r.Message, test.want[i])
			}
		}
	}
}

// The prediction counts the huge pages of the pod like the agent.
func TestExplainCountsHugePages(t *testing.T) {
	pod := launcherPod(map[string]string{
		"devices.memlock.mooring.dev": "vfio=1", "guest-memory.memlock.mooring.dev": "4Gi",
	})
	limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	pod.Spec.Containers[0].Resources.Limits = limits
	for quantity, want := range map[string]bool{"38Gi": false, "39Gi": true} {
		limits["hugepages-1Gi"] = resource.MustParse(quantity)
		e := Explain(parsePolicy(t, policy.Enforce), pod, Node{})
		if e.Refused != want {
			t.Errorf("%s of huge pages: refused %t, want %t", quantity, e.Refused, want)
		}
	}
}
