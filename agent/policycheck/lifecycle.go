package policycheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
)

func (w *warner) lifecycle() {
	l := w.policy.Lifecycle
	reactions := []struct {
		field string
		does  policy.Reaction
	}{{"unattended", l.Unattended}, {"hung", l.Hung}}
	for _, r := range reactions {
		if w.policy.Mode == policy.Observe && r.does == policy.ReactionStop {
			w.warn("lifecycle."+r.field, "stop does nothing while the mode is observe")
		}
	}
	bind := func(r policy.Rule) bool { return len(r.Domains) > 0 }
	if l.Libvirt != nil && !slices.ContainsFunc(w.policy.Rules, bind) {
		w.warn("lifecycle.libvirt", "no rule allows any of its domains: list some in rules[].domains")
	}
}

func (w *warner) domains(i int, rule policy.Rule) {
	path := fmt.Sprintf("rules[%d].domains", i)
	if len(rule.Domains) > 0 && w.policy.Lifecycle.Libvirt == nil {
		w.warn(path, "lifecycle.libvirt is missing: whoever declares a domain is refused")
	}
	if len(rule.Namespaces) == 1 && !strings.ContainsAny(rule.Namespaces[0], "*?[") {
		return
	}
	for n, glob := range rule.Domains {
		if strings.Trim(glob, "*") == "" {
			w.warn(fmt.Sprintf("%s[%d]", path, n), "whoever may create a pod in any of the namespaces may bind, and stop, "+
				"the VMs of all others; give each namespace a rule with domains of its own")
		}
	}
}
