package policycheck

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
)

// shadowed warns about a rule that never applies, or one of its namespaces, because earlier rules
// match all its pods. The first matching rule decides.
func (w *warner) shadowed(i int) {
	rule := w.policy.Rules[i]
	earlier := slices.DeleteFunc(slices.Clone(w.policy.Rules[:i]), func(r policy.Rule) bool {
		return !coversAccounts(r, rule)
	})
	by := make([]string, len(rule.Namespaces)) // name of the rule that covers each namespace
	for n, glob := range rule.Namespaces {
		at := slices.IndexFunc(earlier, func(r policy.Rule) bool {
			return covers(r.Namespaces, glob)
		})
		if at >= 0 {
			by[n] = earlier[at].Name
		}
	}
	if !slices.Contains(by, "") {
		w.warn(fmt.Sprintf("rules[%d]", i), "rule %q never applies, because %s before it; "+
			"remove it, or put narrow rules before wide ones",
			rule.Name, matching(by))
		return
	}
	for n, name := range by {
		if name != "" {
			w.warn(fmt.Sprintf("rules[%d].namespaces[%d]", i, n), "%q has no effect here, "+
				"because %s before it",
				rule.Namespaces[n], matching([]string{name}))
		}
	}
}

// coversAccounts reports whether the early rule matches each service account of the late one.
func coversAccounts(early, late policy.Rule) bool {
	if len(early.ServiceAccounts) == 0 {
		return true
	}
	accounts := late.ServiceAccounts
	if len(accounts) == 0 {
		accounts = []string{"*"}
	}
	return !slices.ContainsFunc(accounts, func(glob string) bool {
		return !covers(early.ServiceAccounts, glob)
	})
}

// covers reports whether one of the globs matches every name that glob matches. It compares only
// the clear cases: "*", the same text, and a name without wildcards as glob.
func covers(globs []string, glob string) bool {
	literal := !strings.ContainsAny(glob, "*?[")
	return slices.ContainsFunc(globs, func(g string) bool {
		matched, _ := path.Match(g, glob) // policy.Parse refuses malformed globs
		return g == "*" || g == glob || literal && matched
	})
}

// matching says that the named rules match the same pods.
func matching(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 1 {
		return fmt.Sprintf("rule %q matches the same pods", names[0])
	}
	for i, name := range names {
		names[i] = strconv.Quote(name)
	}
	return fmt.Sprintf("rules %s match the same pods", strings.Join(names, ", "))
}
