package decide_test

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// drawFacts draws valid and invalid requests.
func drawFacts(t *rapid.T) decide.Facts {
	f := decide.Facts{
		Pod: agentapi.PodRef{
			Namespace: rapid.SampledFrom([]string{"trusted", "tenant-a", "accounts",
				"nowhere"}).Draw(t, "namespace"), Name: "vm",
		},
		Container:           rapid.SampledFrom([]string{"compute", "sidecar"}).Draw(t, "container"),
		Annotations:         map[string]string{},
		ServiceAccount:      rapid.SampledFrom([]string{"vm-1", "default"}).Draw(t, "account"),
		ServiceAccountKnown: rapid.Bool().Draw(t, "known"),
		MemoryLimit:         rapid.SampledFrom([]int64{-1, 0, 1, gi, 1<<63 - 1}).Draw(t, "limit"),
		HugePages:           rapid.SampledFrom([]int64{0, gi, 1<<63 - 1}).Draw(t, "huge pages"),
		NodeGranted:         rapid.Int64Range(0, 64*gi).Draw(t, "granted"),
		Exists:              rapid.Bool().Draw(t, "exists"),
	}
	if rapid.Bool().Draw(t, "is claimed") {
		f.DomainClaimant = &agentapi.PodRef{Namespace: "trusted", Name: "other"}
	}
	if rapid.Bool().Draw(t, "has spec") {
		l := host.Limit(rapid.Uint64().Draw(t, "spec"))
		f.SpecMemlock = &host.Rlimit{Soft: l, Hard: l}
	}
	if rapid.Bool().Draw(t, "inherits") {
		l := rapid.SampledFrom([]host.Limit{8 << 20, 8 * gi, 64 * gi, host.Unlimited}).Draw(t,
			"inherited")
		f.Inherited = &host.Rlimit{Soft: l, Hard: l}
	}
	keys := []string{
		api.LauncherKey, api.APIVersionKey, api.RequiresLockKey, api.ValueKey, api.GuestMemoryKey,
		api.OverheadKey, api.DevicesKey,
		"memory.high" + api.CgroupSuffix, "pids.max" + api.CgroupSuffix,
		"memory.max" + api.CgroupSuffix, "x" + api.Suffix,
		"ulimits.noderesource.dev/container.compute", api.DomainKey, api.GracePeriodKey,
		api.WatchdogKey,
	}
	values := []string{
		"compute", "true", "false", "4Gi", "100Gi", "unlimited", "vfio=1", "vfio=2,iommu", "max",
		"100", "-1", "", "1e30",
		"a\nb", "8Ei", api.APIVersion, "- {type: memlock}", "vms-1", "30s",
	}
	for range rapid.IntRange(0, 8).Draw(t, "annotations") {
		key := rapid.SampledFrom(keys).Draw(t, "key") +
			rapid.SampledFrom([]string{"", "", "/pod", "/container.compute"}).Draw(t, "scope")
		f.Annotations[key] = rapid.SampledFrom(values).Draw(t, "value")
	}
	if rapid.Bool().Draw(t, "is launcher") {
		f.Annotations[api.LauncherKey] = "compute"
	}
	return f
}

// For all requests: no decision exceeds the policy, plain containers stay unchanged, observe mode
// does nothing, and refusals are readable.
func TestContainerProperty(t *testing.T) {
	enforce, observe := decidetest.Policy(t, policy.Enforce), decidetest.Policy(t, policy.Observe)
	rapid.Check(t, func(t *rapid.T) {
		f := drawFacts(t)
		required := rapid.Bool().Draw(t, "require memory limit")
		enforce.Memlock.RequireMemoryLimit = required
		observe.Memlock.RequireMemoryLimit = required
		d := decide.Container(enforce, f)
		if name, ok, _ := api.Launcher(f.Annotations); !ok || name != f.Container {
			if !cmp.Equal(d, decide.Decision{}) {
				t.Fatalf("a plain container got %+v", d)
			}
			return
		}
		checkPrediction(t, decide.Container(observe, f), d)
		if d.Refusal != nil {
			checkReadable(t, d)
			return
		}
		if d.Domain != "" && f.DomainClaimant != nil {
			t.Fatalf("domain %q is another's", d.Domain)
		}
		if d.Undecided {
			if d.Act() || !f.Exists || f.ServiceAccountKnown {
				t.Fatalf("undecided without reason, or acts: %+v", d)
			}
			return
		}
		checkWithinPolicy(t, enforce, f, d)
	})
}

// checkPrediction compares the decision of mode observe with that of mode enforce. Only the mode and
// its reports differ.
func checkPrediction(t *rapid.T, observed, enforced decide.Decision) {
	if observed.Act() {
		t.Fatal("observe mode acts")
	}
	if !observed.Undecided {
		checkPredicted(t, observed, enforced)
	}
	observed.Mode, observed.Remarks = enforced.Mode, enforced.Remarks
	for i := range enforced.Settings {
		one, other := &observed.Settings[i], enforced.Settings[i]
		one.Status, one.Given, one.Message = other.Status, other.Given, other.Message
	}
	if diff := cmp.Diff(enforced, observed); diff != "" {
		t.Fatalf("the decision differs (-enforce +observe):\n%s", diff)
	}
}

// checkPredicted checks that the report of mode observe names the outcome of mode enforce.
func checkPredicted(t *rapid.T, observed, enforced decide.Decision) {
	var reason agentapi.Reason
	text := policy.Observing
	switch {
	case enforced.Refusal != nil:
		reason, text = agentapi.ReasonWouldRefuse, text+enforced.Refusal.Message
	case len(enforced.Settings) > 0:
		reason = agentapi.ReasonWouldSet
	default:
		return
	}
	for _, r := range observed.Remarks {
		if r.Reason == reason && strings.HasPrefix(r.Message, text) {
			return
		}
	}
	t.Fatalf("remarks %+v, want %s: %s", observed.Remarks, reason, text)
}

func checkReadable(t *rapid.T, d decide.Decision) {
	if d.Act() {
		t.Fatal("a refusal acts")
	}
	if text := d.Refusal.Error(); strings.ContainsAny(text, "\n\r") || len(text) > 4096 {
		t.Fatalf("refusal is no readable line: %q", text)
	}
}

// checkAccount checks that the node's account has room for the processes of a new launcher
// together.
func checkAccount(t *rapid.T, p *policy.Policy, f decide.Facts, lock host.Limit) {
	bound := host.Bound{Memory: f.MemoryLimit, HugePages: f.HugePages}
	_, bound.Outside = f.DeclaredDomain()
	charge, bounded := bound.Charge(lock)
	if !f.Exists && charge > p.Memlock.NodeMax-f.NodeGranted {
		t.Fatalf("given %s, which counts with %d, and others have %d", lock, charge, f.NodeGranted)
	}
	if !bounded && p.Memlock.RequireMemoryLimit {
		t.Fatalf("given %s without the required memory limit", lock)
	}
}

func checkWithinPolicy(t *rapid.T, p *policy.Policy, f decide.Facts, d decide.Decision) {
	rule, _, err := p.Match(f.Pod.Namespace, f.ServiceAccount, f.ServiceAccountKnown)
	if err != nil && (d.Memlock != nil || len(d.Cgroup) > 0 || d.Domain != "") {
		t.Fatalf("given %+v without a rule", d)
	}
	for _, s := range d.Cgroup {
		if err := rule.AllowCgroupFile(s.File); err != nil {
			t.Fatal(err)
		}
	}
	if d.Domain != "" && rule.AllowDomain(d.Domain) != nil {
		t.Fatalf("domain %q under rule %q", d.Domain, rule.Name)
	}
	switch {
	case d.Memlock == nil:
	case *d.Memlock == host.Unlimited:
		if !rule.Memlock.Unlimited || f.MemoryLimit <= 0 {
			t.Fatalf("unlimited under rule %q with a memory limit of %d", rule.Name, f.MemoryLimit)
		}
	case int64(*d.Memlock) > rule.Memlock.Max:
		t.Fatalf("given %s under rule %q", d.Memlock, rule.Name)
	}
	if d.Memlock != nil {
		checkAccount(t, p, f, *d.Memlock)
	}
	present := f.SpecMemlock
	if present == nil {
		present = f.Inherited
	}
	if d.Yield && !present.Covers(*d.Memlock) {
		t.Fatalf("yields to %+v when %s is asked for", present, d.Memlock)
	}
	if d.Act() && !f.Exists && d.Memlock != nil && !d.Yield && present != nil &&
		present.Soft > *d.Memlock && present.Hard > *d.Memlock &&
		rule.AllowMemlock(int64(min(present.Soft, math.MaxInt64)),
			present.Soft == host.Unlimited) == nil {
		t.Fatalf("lowers %+v to %s, and rule %q allows it", present, d.Memlock, rule.Name)
	}
}
