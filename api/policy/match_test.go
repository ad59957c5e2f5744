package policy

import (
	"math"
	"path/filepath"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse([]byte(head + text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMatch(t *testing.T) {
	p := parse(t, `rules:
- {name: exact, namespaces: [vms, db]}
- {name: accounts, namespaces: ["tenant-*"], serviceAccounts: [default, "vm-*"]}
- {name: later, namespaces: ["tenant-[ab]", "*-prod"]}
`)
	for _, c := range []struct {
		namespace, account string
		known              bool
		rule, err          string
	}{
		{"vms", "anyone", true, "exact", ""},
		{"db", "", false, "exact", ""},
		{"tenant-a", "default", true, "accounts", ""},
		{"tenant-a", "vm-1", true, "accounts", ""},
		{"tenant-a", "other", true, "later", ""},
		{"tenant-c", "other", true, "",
			`no rule of the node policy matches namespace "tenant-c" and service account "other"`},
		{"tenant-a", "default", false, "",
			`rule "accounts" of the node policy names service accounts`},
		{"shop-prod", "", false, "later", ""},
		{"tenant-prod", "x", true, "later", ""},
		{"vms2", "x", true, "", "no rule"},
		{"avms", "x", false, "", `no rule of the node policy matches namespace "avms"`},
		{"", "", false, "", "no rule"},
		{"tenant-a/b", "default", true, "", "no rule"},
	} {
		got, _, err := p.Match(c.namespace, c.account, c.known)
		if got.Name != c.rule || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("Match(%q, %q, %v) = %q, %v", c.namespace, c.account, c.known, got.Name, err)
		}
	}
	if _, _, err := parse(t, "").Match("vms", "x", true); err == nil {
		t.Error("a policy without rules allows a request")
	}
}

func TestProfile(t *testing.T) {
	p := parse(t, `profiles:
- {name: strict, podLabels: {app: vm, tier: gold}, container: gold}
- {name: loose, podLabels: {app: vm}, container: plain}
`)
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, ""}, {map[string]string{"app": "web"}, ""}, {map[string]string{"tier": "gold"}, ""},
		{map[string]string{"app": ""}, ""},
		{map[string]string{"app": "vm"}, "loose"},
		{map[string]string{"app": "vm", "x": "y"}, "loose"},
		{map[string]string{"app": "vm", "tier": "gold"}, "strict"},
	} {
		if got, ok := p.Profile(c.labels); got.Name != c.want || ok != (c.want != "") {
			t.Errorf("Profile(%v) = %+v, %v, want %q", c.labels, got, ok, c.want)
		}
	}
	if got, ok := (&Policy{Profiles: []Profile{{Name: "empty"}}}).Profile(nil); ok {
		t.Errorf("a profile without labels recognises every pod: %+v", got)
	}
}

func TestAllowMemlock(t *testing.T) {
	for _, c := range []struct {
		memlock   PodMemlock
		bytes     int64
		unlimited bool
		want      string
	}{
		{PodMemlock{Max: 16 << 30}, 16 << 30, false, ""},
		{PodMemlock{Max: 16 << 30}, 16<<30 + 1, false,
			`rule "r" of the node policy allows up to 16Gi of locked memory, but the pod asks ` +
				`for 17179869185`},
		{PodMemlock{Max: 16 << 30}, 0, true, "no unlimited locked memory, but up to 16Gi"},
		{PodMemlock{Max: 16 << 30, Unlimited: true}, 0, true, ""},
		{PodMemlock{Max: 16 << 30, Unlimited: true}, 17 << 30, false, "allows up to 16Gi"},
		{PodMemlock{Max: math.MaxInt64, Unlimited: true}, math.MaxInt64, false, ""},
		{PodMemlock{}, 1, false, "allows no locked memory"},
		{PodMemlock{}, 0, true, "allows no locked memory"},
	} {
		err := Rule{Name: "r", Memlock: c.memlock}.AllowMemlock(c.bytes, c.unlimited)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: AllowMemlock(%d, %v) = %v, want %q", c.memlock, c.bytes, c.unlimited,
				err, c.want)
		}
	}
}

func TestAllowCgroupFile(t *testing.T) {
	r := Rule{Name: "r", CgroupFiles: []string{"io.max", "memory.high"}}
	if err := r.AllowCgroupFile("memory.high"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		rule Rule
		want string
	}{
		{r,
			`rule "r" of the node policy does not allow the cgroup file cpu.max: it allows ` +
				`io.max, memory.high`},
		{Rule{Name: "r"},
			`rule "r" of the node policy allows no cgroup files, but the pod asks for cpu.max`},
	} {
		if err := c.rule.AllowCgroupFile("cpu.max"); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func TestAllowDomain(t *testing.T) {
	r := Rule{Name: "r", Domains: []string{"vm-*", "8c3f9f9e-*"}}
	for _, c := range []struct {
		rule     Rule
		declared string
		want     string
	}{
		{r, "vm-1", ""},
		{r, "8c3f9f9e-3f30-4e5a-8d5c-0f8f4f9b7a10", ""},
		{r, "VM-1",
			`rule "r" of the node policy does not allow the domain "VM-1": it allows vm-*, ` +
				`8c3f9f9e-*`},
		{r, "svm-1", `does not allow the domain "svm-1"`},
		{Rule{Name: "r"}, "vm-1",
			`rule "r" of the node policy allows no domains of the node's libvirt, but the pod ` +
				`asks for "vm-1"`},
	} {
		err := c.rule.AllowDomain(c.declared)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: AllowDomain(%q) = %v, want %q", c.rule.Domains, c.declared, err, c.want)
		}
	}
}

func TestShippedPolicies(t *testing.T) {
	for name, mode := range map[string]Mode{"observe": Observe, "enforce": Enforce} {
		p, err := Load(filepath.Join("..", "..", "deploy", "policy", name+".yaml"))
		if err != nil {
			t.Error(err)
			continue
		}
		if p.Mode != mode {
			t.Errorf("%s.yaml has mode %s", name, p.Mode)
		}
		profile, ok := p.Profile(map[string]string{"kubevirt.io": "virt-launcher",
			"vm.kubevirt.io/name": "vm"})
		if !ok || profile.Container != "compute" {
			t.Errorf("%s.yaml does not recognise KubeVirt's launcher: %+v", name, profile)
		}
		if _, _, err := p.Match("vms", "", false); err != nil {
			t.Errorf("%s.yaml: %v", name, err)
		}
		checkSound(t, p)
	}
}
