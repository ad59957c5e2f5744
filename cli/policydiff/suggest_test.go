package policydiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/agent/policycheck"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

func TestSuggest(t *testing.T) {
	p := parse(t, strings.Replace(allowing, "max: 8Gi}", "max: 8Gi}, cgroupFiles: [pids.max], "+
		"domains: ['*']", 1)+"lifecycle: {libvirt: {}, maxGracePeriod: 3h}\n")
	small, large := vm("small"), vm("large")
	large.Annotations[api.GuestMemoryKey] = "6Gi"
	large.Annotations["pids.max"+api.CgroupSuffix] = "100"
	domain := vm("domain")
	domain.Annotations[api.DomainKey], domain.Annotations[api.GracePeriodKey] = "a[1]", "2h"
	profiled := vm("profiled")
	profiled.Labels = map[string]string{"kubevirt.io": "virt-launcher", "a": "b"}
	delete(profiled.Annotations, api.LauncherKey)
	plain := vm("plain")
	plain.Pod.Namespace = "other"
	plain.Annotations = map[string]string{api.LauncherKey: "compute"}
	refused := vm("refused")
	refused.Pod.Namespace = "nowhere"
	var all []Launcher
	p.Profiles = []policy.Profile{{Name: "x", PodLabels: map[string]string{"a": "b"},
		Container: "compute"}}
	for _, f := range []decide.Facts{small, large, domain, profiled, plain, refused} {
		all = append(all, running(p, f))
	}
	all = append(all, Launcher{Missing: "no pod"})
	got, err := Suggest(all)
	if err != nil {
		t.Fatal(err)
	}
	want := head + `mode: enforce
lifecycle:
  maxGracePeriod: 2h0m0s
  libvirt: {}
profiles:
- name: kubevirt
  podLabels: {"kubevirt.io": "virt-launcher"}
  container: "compute"
rules:
- name: "vms"
  namespaces: ["vms"]
  memlock: {max: 6Gi}
  cgroupFiles: ["pids.max"]
  domains: ["a[[]1]"]
`
	if diff := cmp.Diff(want, got.YAML); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(got.Skipped) != 2 || !strings.Contains(got.Skipped[0], "nowhere/refused: mooring ") {
		t.Errorf("skipped %q", got.Skipped)
	}
}

// By the suggested policy no launcher of the agent changes, and none is refused.
func TestSuggestionChangesNothing(t *testing.T) {
	policies := []*policy.Policy{decidetest.Policy(t, policy.Enforce),
		decidetest.Policy(t, policy.Observe)}
	unlimited := &host.Rlimit{Soft: host.Unlimited, Hard: host.Unlimited}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(policies).Draw(t, "policy")
		n := newNode(t, p, rapid.SampledFrom([]*host.Rlimit{nil, unlimited}).Draw(t, "inherited"))
		all, ctrs := pods(t)
		for i, ctr := range ctrs {
			if _, _, err := n.CreateContainer(t.Context(), all[i], ctr); err == nil {
				must(t, n.PostStartContainer(t.Context(), all[i], ctr))
			}
		}
		suggested, err := Suggest(n.launchers())
		must(t, err)
		next, err := policycheck.Read("suggestion", strings.NewReader(suggested.YAML))
		must(t, err)
		var running []Launcher
		for _, l := range n.launchers() {
			if l.State != agentapi.StateRefused {
				running = append(running, l)
			}
		}
		for _, c := range Diff(next, running).Changes {
			if c.Kind != Allowed || p.Mode == policy.Enforce {
				t.Fatalf("%+v by\n%s", c, suggested.YAML)
			}
		}
	})
}

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
