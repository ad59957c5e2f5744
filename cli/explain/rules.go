package explain

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// RuleTrace says whether a rule decides for a pod, and why.
type RuleTrace struct {
	Name    string `json:"name"`
	Decides bool   `json:"decides"`
	Why     string `json:"why"`
}

// traceRules goes through the rules up to the one that decides, or that ends the
// search with a refusal. It asks the policy itself about each rule alone.
func traceRules(p *policy.Policy, f decide.Facts) (all []RuleTrace) {
	for _, rule := range p.Rules {
		err := matchAlone(rule, f)
		switch {
		case err == nil:
			return append(all, RuleTrace{rule.Name, true, "it is the first that matches"})
		case accountDecides(rule, f) && !f.ServiceAccountKnown:
			return append(all, RuleTrace{rule.Name, false, err.Error()})
		}
		all = append(all, RuleTrace{rule.Name, false, mismatch(rule, f)})
	}
	return all
}

// matchAlone returns nil when the policy would decide by this rule if it had no other.
func matchAlone(rule policy.Rule, f decide.Facts) error {
	alone := policy.Policy{Rules: []policy.Rule{rule}}
	_, err := alone.Match(f.Pod.Namespace, f.ServiceAccount, f.ServiceAccountKnown)
	return err
}

// accountDecides reports whether the rule matches the pod's namespace, so that the
// service account is what is left.
func accountDecides(rule policy.Rule, f decide.Facts) bool {
	rule.ServiceAccounts = nil
	return matchAlone(rule, f) == nil
}

func mismatch(rule policy.Rule, f decide.Facts) string {
	if accountDecides(rule, f) {
		return fmt.Sprintf("service account %q is none of %s", f.ServiceAccount, strings.Join(rule.ServiceAccounts, ", "))
	}
	return fmt.Sprintf("namespace %q is none of %s", f.Pod.Namespace, strings.Join(rule.Namespaces, ", "))
}
