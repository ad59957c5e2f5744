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

// traceRules explains the results of comparing the policy's first rules with a pod.
func traceRules(p *policy.Policy, f decide.Facts, compared []policy.Comparison) (all []RuleTrace) {
	for i, result := range compared {
		rule := p.Rules[i]
		all = append(all, RuleTrace{rule.Name, result == policy.RuleMatches,
			whyRule(rule, f, result)})
	}
	return all
}

func whyRule(rule policy.Rule, f decide.Facts, result policy.Comparison) string {
	switch result {
	case policy.RuleMatches:
		return "it is the first that matches"
	case policy.AccountUndetermined:
		return fmt.Sprintf("rule %q of the node policy names service accounts, and %v",
			rule.Name, policy.ErrAccountUnknown)
	case policy.AccountDiffers:
		return fmt.Sprintf("service account %q is none of %s",
			f.ServiceAccount, strings.Join(rule.ServiceAccounts, ", "))
	}
	return fmt.Sprintf("namespace %q is none of %s",
		f.Pod.Namespace, strings.Join(rule.Namespaces, ", "))
}
