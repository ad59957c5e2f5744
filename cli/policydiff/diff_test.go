package policydiff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

const head = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\n"

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(head + text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// running returns a launcher as the agent reports it after a decision by p.
func running(p *policy.Policy, f decide.Facts) Launcher {
	d := decide.Container(p, f)
	l := Launcher{Launcher: agentapi.Launcher{Pod: f.Pod, State: agentapi.StateRunning,
		Mode: string(d.Mode), Rule: d.Rule, Settings: d.Settings}, Facts: &f}
	l.Container.Name, l.Limits.Memory = f.Container, f.MemoryLimit
	if d.Refusal != nil {
		l.Refusal = d.Refusal.Message
	}
	return l
}

// vm returns the facts of a launcher with a memory limit of 5Gi that asks for a lock of 4Gi.
func vm(name string) decide.Facts {
	return decide.Facts{
		Pod:       agentapi.PodRef{Namespace: "vms", Name: name, UID: name},
		Container: "compute", MemoryLimit: 5 << 30,
		Annotations: map[string]string{api.LauncherKey: "compute", api.RequiresLockKey: "true",
			api.GuestMemoryKey: "4Gi", api.OverheadKey: "0"},
	}
}

const allowing = "mode: enforce\nrules: [{name: a, namespaces: [vms], memlock: {max: 8Gi}}]\n"

func TestDiff(t *testing.T) {
	plain := vm("plain")
	plain.Annotations = map[string]string{api.LauncherKey: "compute"}
	profiled := vm("profiled")
	profiled.Labels = map[string]string{"a": "b"}
	delete(profiled.Annotations, api.LauncherKey)
	inherits := vm("inherits")
	const profile = "profiles: [{name: p, podLabels: {a: b}, container: compute}]\n"
	account := "mode: enforce\nrules: [{name: a, namespaces: [vms], serviceAccounts: [x], " +
		"memlock: {max: 8Gi}}]\n"
	for name, test := range map[string]struct {
		before, after string
		facts         decide.Facts
		want          string // KIND: TODAY -> NEXT; empty: no change
		reason        string // part of it
	}{
		"the same": {allowing, allowing, vm("vm"), "", ""},
		"another rule with the same result": {allowing, strings.Replace(allowing, "name: a",
			"name: b", 1), vm("vm"), "", ""},
		"a lower maximum": {allowing, strings.Replace(allowing, "8Gi", "1Gi", 1), vm("vm"),
			"refused: 4Gi -> refused", `rule "a" of the node policy allows up to 1Gi`},
		"no rule": {allowing, "mode: enforce\n", vm("vm"), "refused: 4Gi -> refused", "no rule"},
		"to observe": {allowing, strings.Replace(allowing, "enforce", "observe", 1), vm("vm"),
			"mode: 4Gi -> observe: 4Gi", "mode observe instead of enforce"},
		"to enforce, refused": {"mode: observe\n", "mode: enforce\n", vm("vm"),
			"refused: observe: refused -> refused", "no rule"},
		"would refuse": {strings.Replace(allowing, "enforce", "observe", 1), "mode: observe\n",
			vm("vm"), "settings: observe: 4Gi -> observe: refused", "no rule"},
		"refused before": {"mode: enforce\n", allowing, vm("vm"), "allowed: refused -> 4Gi",
			`rule "a" allows it`},
		"no request": {allowing, "mode: enforce\n", plain, "", ""},
		"no profile": {allowing + profile, allowing, profiled, "leftAlone: 4Gi -> left alone",
			"no profile"},
		"a service account that the agent does not know": {allowing, account, vm("vm"),
			"unknown: 4Gi -> unknown", "service account"},
		"memory limit required": {allowing, allowing + "memlock: {requireMemoryLimit: true}\n",
			vm("vm"), "", ""},
		"full node": {allowing, allowing + "memlock: {nodeMax: 4Gi}\n", inherits,
			"refused: 4Gi -> refused", "memlock.nodeMax"},
	} {
		l := running(parse(t, test.before), test.facts)
		report := Diff(parse(t, test.after), []Launcher{l})
		got, reason := "", ""
		for _, c := range report.Changes {
			next := "unknown"
			if c.Next != nil {
				next = c.Next.String()
			}
			got, reason = string(c.Kind)+": "+c.Today.String()+" -> "+next, c.Reason
		}
		if got != test.want || !strings.Contains(reason, test.reason) || report.Launchers != 1 {
			t.Errorf("%s: %q (%s), want %q (%s)", name, got, reason, test.want, test.reason)
		}
	}
}

// The node's account has the other launchers of the node, also those of other namespaces.
func TestDiffSharesTheAccount(t *testing.T) {
	p := parse(t, allowing)
	limited := parse(t, allowing+"memlock: {nodeMax: 12Gi}\n") // two of 5Gi fit
	nodes := func(names ...string) (all []Launcher) {
		for i, node := range names {
			l := running(p, vm(string(rune('a'+i))))
			l.Node = node
			all = append(all, l)
		}
		return all
	}
	if got := Diff(limited, nodes("n1", "n1", "n2")); len(got.Changes) != 0 {
		t.Errorf("two launchers of a node: %+v", got.Changes)
	}
	if got := Diff(limited, nodes("n1", "n1", "n1")); got.Count(Refused) != 3 {
		t.Errorf("three launchers of a node: %+v", got.Changes)
	}
	all := nodes("n1", "n1", "n1")
	all[0].State, all[1].OnlyAccount = agentapi.StateStopped, true
	if got := Diff(limited, all); len(got.Changes) != 0 || got.Launchers != 1 {
		t.Errorf("a stopped launcher counts: %+v", got)
	}
	all[0].State, all[0].OnlyAccount = agentapi.StateRunning, true
	if got := Diff(limited, all); got.Count(Refused) != 1 {
		t.Errorf("launchers of other namespaces do not count: %+v", got)
	}
}

func TestDiffWithoutFacts(t *testing.T) {
	p := parse(t, allowing)
	l := running(p, vm("vm"))
	l.Facts, l.Missing = nil, "no pod"
	got := Diff(p, []Launcher{l}).Changes
	if len(got) != 1 || got[0].Kind != Unknown || got[0].Reason != "no pod" || got[0].Next != nil {
		t.Errorf("%+v", got)
	}
}

// An inherited limit stays in force today and next.
func TestDiffOfAnInheritedLimit(t *testing.T) {
	p := parse(t, strings.Replace(allowing, "max: 8Gi", "unlimited: true, max: 8Gi", 1))
	l := running(p, vm("vm"))
	l.Settings = []agentapi.Setting{{Name: agentapi.MemlockSetting, Requested: "4Gi",
		Given: api.Unlimited, Status: agentapi.StatusYielded}}
	l.Facts.Inherited = decide.Inherited(&l.Launcher)
	if got := Diff(p, []Launcher{l}).Changes; len(got) != 0 {
		t.Errorf("%+v", got)
	}
	got := Diff(parse(t, allowing), []Launcher{l}).Changes
	if len(got) != 1 || !cmp.Equal(got[0].Next.Settings, map[string]string{"memlock": "4Gi"}) {
		t.Errorf("%+v", got)
	}
}
