package policycheck

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
)

// shadowed warns of a rule, or of a namespace of it, that never decides because
// earlier rules catch all that it would.
func (w *warner) shadowed(i int) {
	rule := w.policy.Rules[i]
	var before []policy.Rule
	for _, early := range w.policy.Rules[:i] {
		if catchesAccounts(early, rule) {
			before = append(before, early)
		}
	}
	var caught []int
	for n, glob := range rule.Namespaces {
		if covers(namespacesOf(before), glob) {
			caught = append(caught, n)
		}
	}
	if len(caught) == len(rule.Namespaces) {
		w.warn(fmt.Sprintf("rules[%d]", i), "rule %q never decides: %s before it catches all that it would; put narrow rules before wide ones",
			rule.Name, names(blame(before, rule.Namespaces...)))
		return
	}
	for _, n := range caught {
		w.warn(fmt.Sprintf("rules[%d].namespaces[%d]", i, n), "%q never matches here: %s before it catches all of it",
			rule.Namespaces[n], names(blame(before, rule.Namespaces[n])))
	}
}

// catchesAccounts reports whether the early rule matches each service account that
// the late one matches.
func catchesAccounts(early, late policy.Rule) bool {
	if len(early.ServiceAccounts) == 0 {
		return true
	}
	accounts := late.ServiceAccounts
	if len(accounts) == 0 {
		accounts = []string{"*"}
	}
	for _, glob := range accounts {
		if !covers([]globList{early.ServiceAccounts}, glob) {
			return false
		}
	}
	return true
}

// blame returns the first rule that covers all the globs alone, where there is one,
// else all of them.
func blame(rules []policy.Rule, globs ...string) []policy.Rule {
	for i, r := range rules {
		if !slices.ContainsFunc(globs, func(glob string) bool { return !covers([]globList{r.Namespaces}, glob) }) {
			return rules[i : i+1]
		}
	}
	return rules
}

func namespacesOf(rules []policy.Rule) (all []globList) {
	for _, r := range rules {
		all = append(all, r.Namespaces)
	}
	return all
}

func names(rules []policy.Rule) string {
	quoted := make([]string, len(rules))
	for i, r := range rules {
		quoted[i] = strconv.Quote(r.Name)
	}
	if len(quoted) == 1 {
		return "rule " + quoted[0]
	}
	return "one of the rules " + strings.Join(quoted, ", ")
}
