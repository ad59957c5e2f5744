package policy

import (
	"errors"
	"testing"
)

func inRule(resize string) string {
	return head + "rules: [{name: a, namespaces: [vms], resize: " + resize + "}]"
}

// An absent field bounds nothing.
func TestParseResize(t *testing.T) {
	for text, want := range map[string]Resize{
		"{}":                                {},
		"{maxMemory: 1Mi}":                  {MaxMemory: 1 << 20},
		"{maxMemory: 500M, maxVCPUs: 1}":    {MaxMemory: 500_000_000, MaxVCPUs: 1},
		"{maxMemory: 4Ei, maxVCPUs: 8192}":  {MaxMemory: 1 << 62, MaxVCPUs: 8192},
		"{maxMemory: 1073741824}":           {MaxMemory: 1 << 30},
		"{maxVCPUs: 16}":                    {MaxVCPUs: 16},
		"{maxMemory: '1.5Gi', maxVCPUs: 3}": {MaxMemory: 1536 << 20, MaxVCPUs: 3},
	} {
		p, err := Parse([]byte(inRule(text)))
		if err != nil || p.Rules[0].Resize != want {
			t.Errorf("%s: %+v, %v, want %+v", text, p, err, want)
		}
	}
}

func refusedInResize() (all []refusal) {
	in := func(fields, want string) {
		all = append(all, refusal{inRule("{" + fields + "}"), "rules[0].resize." + want})
	}
	in("memory: 64Gi", "memory: unknown field")
	in("maxMemory: 5Ei", `maxMemory: "5Ei": want 1Mi to 4Ei; leave it out for no bound`)
	for _, wrong := range []string{"0", "1023Ki", "-1Gi", "lots", "''", "1e9", "[1Gi]", "true"} {
		in("maxMemory: "+wrong, "maxMemory: ")
	}
	in("maxVCPUs: 8193", "maxVCPUs: 8193: want a number of vCPUs between 1 and 8192; leave it out "+
		"for no bound")
	for _, wrong := range []string{"0", "-1", "1.5", "'16'", "lots", "[1]", "true"} {
		in("maxVCPUs: "+wrong, "maxVCPUs: ")
	}
	return all
}

// Bounds apply like all other parts of a rule. A policy without them matches no pod against rules.
func TestMatchResize(t *testing.T) {
	bounded := inRule("{maxVCPUs: 4}")
	byAccount := head + "rules: [{name: a, namespaces: [vms], serviceAccounts: [b], " +
		"resize: {maxVCPUs: 4}}]"
	for name, tt := range map[string]struct {
		policy, namespace, account string
		want                       string // the rule
		fails                      bool
	}{
		"a match":             {bounded, "vms", "b", "a", false},
		"no match":            {bounded, "others", "b", "", true},
		"by account":          {byAccount, "vms", "b", "a", false},
		"another account":     {byAccount, "vms", "c", "", true},
		"an unknown account":  {byAccount, "vms", "", "", true},
		"no bounds, no match": {inRule("{}"), "others", "b", "", false},
		"no bounds, a match":  {inRule("{}"), "vms", "b", "", false},
	} {
		p, err := Parse([]byte(tt.policy))
		if err != nil {
			t.Fatal(err)
		}
		rule, err := p.MatchResize(tt.namespace, tt.account, tt.account != "")
		if rule.Name != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: rule %q, %v", name, rule.Name, err)
		}
		if tt.account == "" && !errors.Is(err, ErrAccountUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
