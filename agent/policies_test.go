package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// cluster is a policyCluster with one answer.
type cluster struct {
	synced bool
	object *v1alpha1.NodePolicy
	err    error
}

func (c *cluster) Synced() bool { return c.synced }

func (c *cluster) Choose(string) (*v1alpha1.NodePolicy, error) { return c.object, c.err }

// policyConfig is the configuration of an agent with Kubernetes and a policy file in mode observe.
func policyConfig(t *testing.T) *Config {
	t.Helper()
	dir := t.TempDir()
	config := &Config{Root: dir, Policy: filepath.Join(dir, "policy.yaml"), Kubeconfig: "some"}
	text := strings.Replace(testPolicy, "enforce", "observe", 1)
	if err := os.WriteFile(config.Policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func startPolicies(t *testing.T, config *Config) (*policies, *cluster) {
	t.Helper()
	p, err := loadPolicies(config, discard)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{synced: true}
	p.cluster = c
	return p, c
}

func enforcing(generation int64) *v1alpha1.NodePolicy {
	o := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "gpu", Generation: generation}}
	o.Spec.Mode = string(policy.Enforce)
	o.Spec.Rules = []v1alpha1.NodePolicyRule{{Name: "vms", Namespaces: []string{"vms"}}}
	return o
}

func checkPolicy(t *testing.T, p *policies, mode policy.Mode, want v1alpha1.PolicyReport) {
	t.Helper()
	if got := p.current.Get().Mode; got != mode {
		t.Errorf("mode %q in force, want %q", got, mode)
	}
	got := p.outcome()
	if !strings.Contains(got.Reason, want.Reason) || want.Reason == "" && got.Reason != "" {
		t.Errorf("reason %q, want %q", got.Reason, want.Reason)
	}
	if got.Reason = want.Reason; got != want {
		t.Errorf("report %+v, want %+v", got, want)
	}
}

// The life of a NodePolicy on a node: applied, edited badly, in conflict, corrected, deleted.
func TestPoliciesFollowTheCluster(t *testing.T) {
	p, c := startPolicies(t, policyConfig(t))
	var told []policy.Mode
	p.apply = func(p *policy.Policy) { told = append(told, p.Mode) }
	c.synced = false
	c.object = enforcing(1)
	p.update()
	checkPolicy(t, p, policy.Observe, v1alpha1.PolicyReport{Applied: true})
	if p.known() {
		t.Error("the NodePolicies are known before their list")
	}
	c.synced = true
	p.update()
	if !p.known() {
		t.Error("the NodePolicies are unknown after their list")
	}
	applied := v1alpha1.PolicyReport{Name: "gpu", Generation: 1, Applied: true}
	checkPolicy(t, p, policy.Enforce, applied)
	if got := p.inForce(); got != "NodePolicy gpu, generation 1" {
		t.Errorf("in force: %s", got)
	}

	c.object = enforcing(2)
	c.object.Spec.Mode, c.object.Spec.Rules[0].Namespaces = "", []string{"VMs"}
	p.update()
	checkPolicy(t, p, policy.Enforce, v1alpha1.PolicyReport{Name: "gpu", Generation: 2,
		Reason: `spec.rules[0].namespaces[0]: "VMs": want a namespace`})

	c.object, c.err = enforcing(3), errors.New("two policies")
	p.update()
	checkPolicy(t, p, policy.Enforce, v1alpha1.PolicyReport{Name: "gpu", Generation: 3,
		Reason: "two policies"})

	c.object.Spec.Lifecycle, c.err = &v1alpha1.NodePolicyLifecycle{Emulators: []string{"vmm"}}, nil
	p.update()
	checkPolicy(t, p, policy.Enforce, v1alpha1.PolicyReport{Name: "gpu", Generation: 3,
		Applied: true, Reason: "lifecycle.emulators and lifecycle.libvirt take effect at"})

	c.object = enforcing(4)
	c.object.Spec.Lifecycle = &v1alpha1.NodePolicyLifecycle{
		Libvirt: &v1alpha1.NodePolicyLibvirt{RequireOwner: []string{"vm-*"}}}
	p.update()
	checkPolicy(t, p, policy.Enforce, v1alpha1.PolicyReport{Name: "gpu", Generation: 4,
		Applied: true, Reason: "take effect at"})
	p.started = p.current.Get()
	c.object = c.object.DeepCopy()
	c.object.Generation, c.object.Spec.Lifecycle.Libvirt.RequireOwner = 5, []string{"db"}
	p.update() // the start gate follows at once
	checkPolicy(t, p, policy.Enforce, v1alpha1.PolicyReport{Name: "gpu", Generation: 5,
		Applied: true})
	p.started = p.file

	c.object = nil
	p.update()
	checkPolicy(t, p, policy.Observe, v1alpha1.PolicyReport{Applied: true})
	if _, err := os.Stat(p.cache); !os.IsNotExist(err) {
		t.Errorf("the stored NodePolicy: %v", err)
	}
	if len(told) != 5 {
		t.Errorf("told %v, want five policies", told)
	}
}

// An agent that starts without the API server uses the last NodePolicy. So does the fence.
func TestPoliciesSurviveARestart(t *testing.T) {
	config := policyConfig(t)
	p, c := startPolicies(t, config)
	c.object = enforcing(1)
	p.update()
	c.object = enforcing(2)
	c.object.Spec.Rules[0].Name = "Not A Name"
	p.update()

	again, away := startPolicies(t, config)
	away.synced = false
	again.update()
	checkPolicy(t, again, policy.Enforce,
		v1alpha1.PolicyReport{Name: "gpu", Generation: 1, Applied: true})
	if p, err := policyInForce(config); err != nil || p.Mode != policy.Enforce {
		t.Errorf("the fence has %+v, %v", p, err)
	}

	if err := os.WriteFile(p.cache, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken, _ := startPolicies(t, config)
	checkPolicy(t, broken, policy.Observe, v1alpha1.PolicyReport{Applied: true})

	config.Kubeconfig = ""
	if _, err := loadPolicies(config, discard); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.cache); !os.IsNotExist(err) {
		t.Errorf("an agent without Kubernetes keeps the stored NodePolicy: %v", err)
	}
}

// The fence follows a policy that the agent stores while it runs.
func TestFenceFollowsTheStoredPolicy(t *testing.T) {
	config := policyConfig(t)
	start, err := policyInForce(config)
	if err != nil {
		t.Fatal(err)
	}
	f := newFence(*config, start, discard, host.LinuxClock{})
	p, c := startPolicies(t, config)
	c.object = enforcing(1)
	p.update()
	f.refreshPolicy()
	if f.policy.Mode != policy.Enforce {
		t.Errorf("mode %q, want enforce", f.policy.Mode)
	}
	c.object = nil
	p.update()
	f.refreshPolicy()
	if f.policy.Mode != policy.Observe {
		t.Errorf("mode %q without a NodePolicy, want that of the file", f.policy.Mode)
	}
}

// TestRecreatedPolicy deletes and makes a NodePolicy with the same name. Its generation is 1 again,
// and only the UID differs.
func TestRecreatedPolicy(t *testing.T) {
	config := policyConfig(t)
	p, c := startPolicies(t, config)
	c.object = enforcing(1)
	c.object.UID = "first"
	p.update()
	recreated := enforcing(1)
	recreated.UID, recreated.Spec.Mode = "second", string(policy.Observe)
	want := v1alpha1.PolicyReport{Name: "gpu", UID: "second", Generation: 1, Applied: true}

	restarted, afterRestart := startPolicies(t, config) // with the stored policy
	checkPolicy(t, restarted, policy.Enforce,
		v1alpha1.PolicyReport{Name: "gpu", UID: "first", Generation: 1, Applied: true})
	afterRestart.object = recreated
	restarted.update()
	checkPolicy(t, restarted, policy.Observe, want)

	c.object = recreated
	p.update()
	checkPolicy(t, p, policy.Observe, want)
}

// TestFenceKeepsItsPolicy stores a NodePolicy that an older fence cannot read. The policy file must
// not replace it.
func TestFenceKeepsItsPolicy(t *testing.T) {
	config := policyConfig(t)
	stored := filepath.Join(config.Root, policyCache)
	if err := os.WriteFile(stored, []byte(`{"spec": {"new": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := policyInForce(config); err == nil {
		t.Errorf("an unreadable stored policy gives mode %s", p.Mode)
	}
}
