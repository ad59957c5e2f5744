package policydiff

import (
	"slices"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
	"github.com/mooring-vm/mooring/plugin/plugintest"
)

// node is a node with the agent's plugin and registry.
type node struct {
	*plugin.Plugin
	registry *registry.Registry
}

func newNode(t *rapid.T, p *policy.Policy, inherited *host.Rlimit) node {
	config := plugintest.Config(p)
	config.Accounts = plugintest.Account("vm-1")
	config.Inherited = func() *host.Rlimit { return inherited }
	made, err := plugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return node{made, config.Registry}
}

// launchers returns the launchers as the agent's socket has them.
func (n node) launchers() (all []Launcher) {
	for _, l := range n.registry.List() {
		shown := l.Launcher
		shown.Limits = podapi.Limits(l.Limits)
		found := Launcher{Launcher: shown}
		if f, ok := decide.FactsOf(&shown); ok {
			found.Facts = &f
		}
		all = append(all, found)
	}
	return all
}

// pods draws the pods of a node. Each has one container.
func pods(t *rapid.T) (all []*nri.PodSandbox, ctrs []*nri.Container) {
	names := []string{"a", "b", "c"}
	for _, name := range names[:rapid.IntRange(1, 3).Draw(t, "pods")] {
		annotations := map[string]string{api.LauncherKey: "compute"}
		if rapid.Bool().Draw(t, "locks") {
			annotations[api.RequiresLockKey] = "true"
			annotations[api.GuestMemoryKey] = rapid.SampledFrom([]string{"512Mi", "15Gi", "40Gi"}).
				Draw(t, "guest")
		}
		if rapid.Bool().Draw(t, "limits tasks") {
			annotations["pids.max"+api.CgroupSuffix] = "100"
		}
		if rapid.Bool().Draw(t, "devices") {
			annotations[api.DevicesKey] = rapid.SampledFrom([]string{"vfio=1", "x"}).Draw(t, "device")
		}
		pod := &nri.PodSandbox{Id: "s" + name, Uid: name, Name: name, Annotations: annotations}
		pod.Namespace = rapid.SampledFrom([]string{"trusted", "tenant-a", "accounts", "nowhere"}).
			Draw(t, "namespace")
		if rapid.Bool().Draw(t, "by profile") {
			delete(annotations, api.LauncherKey)
			pod.Labels = map[string]string{"kubevirt.io": "virt-launcher"}
		}
		memory := rapid.SampledFrom([]int64{0, 2 << 30, 12 << 30, 48 << 30}).Draw(t, "memory")
		all = append(all, pod)
		ctrs = append(ctrs, &nri.Container{Id: "c" + name, PodSandboxId: pod.Id, Name: "compute",
			Linux: &nri.LinuxContainer{Resources: &nri.LinuxResources{
				Memory: &nri.LinuxMemory{Limit: nri.Int64(memory)}}}})
	}
	return all, ctrs
}

// The policy in force changes no launcher of the agent. Another policy refuses exactly the pods
// that the agent refuses by it.
func TestDiffPredictsThePlugin(t *testing.T) {
	enforce := decidetest.Policy(t, policy.Enforce)
	observe := decidetest.Policy(t, policy.Observe)
	strict := decidetest.Policy(t, policy.Enforce)
	strict.Memlock = policy.NodeMemlock{RequireMemoryLimit: true, NodeMax: 20 << 30}
	strict.Rules[1].Memlock.Max = 1 << 30
	unlimited := &host.Rlimit{Soft: host.Unlimited, Hard: host.Unlimited}
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SampledFrom([]*policy.Policy{enforce, observe, strict}).Draw(t, "before")
		n := newNode(t, before, rapid.SampledFrom([]*host.Rlimit{nil, unlimited}).Draw(t,
			"inherited"))
		all, ctrs := pods(t)
		for i, ctr := range ctrs {
			_, _, err := n.CreateContainer(t.Context(), all[i], ctr)
			if err == nil {
				err = n.PostStartContainer(t.Context(), all[i], ctr)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		launchers := n.launchers()
		for _, c := range Diff(before, launchers).Changes {
			// another launcher may have filled the account since
			if !strings.Contains(c.Reason, "memlock.nodeMax") {
				t.Fatalf("the policy in force changes %+v", c)
			}
		}
		after := strict
		changes := map[string]Change{}
		for _, c := range Diff(after, launchers).Changes {
			changes[c.Pod.UID] = c
		}
		for _, l := range launchers {
			i := slices.IndexFunc(all, func(p *nri.PodSandbox) bool { return p.Uid == l.Pod.UID })
			checkPrediction(t, after, n, all[i], ctrs[i], l, changes[l.Pod.UID])
		}
	})
}

// checkPrediction compares a change with the answer of an agent with the policy, on a node where
// the other launchers run already.
func checkPrediction(t *rapid.T, p *policy.Policy, before node, pod *nri.PodSandbox,
	ctr *nri.Container, l Launcher, c Change) {
	next := newNode(t, p, decide.Inherited(&l.Launcher))
	for _, other := range before.registry.List() {
		if other.Pod.UID == l.Pod.UID || other.State == agentapi.StateRefused {
			continue
		}
		f, _ := decide.FactsOf(&other.Launcher)
		f.MemoryLimit, f.Exists = other.MemoryLimit, true
		other.Demand = decide.Container(p, f).Demand
		next.registry.Put(other)
	}
	_, _, err := next.CreateContainer(t.Context(), pod, ctr)
	refused := c.Today.Refused()
	if c.Next != nil {
		refused = c.Next.Refused()
	} else if c.Kind == "" {
		refused = today(&l.Launcher).Refused()
	}
	if refused != (err != nil) {
		t.Fatalf("predicted %+v, answer of the plugin: %v", c, err)
	}
}
