package policycheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
)

// lifecycle warns about a libvirt without a rule.
func (w *warner) lifecycle() {
	l := w.policy.Lifecycle
	allowsDomains := func(r policy.Rule) bool { return len(r.Domains) > 0 }
	if l.Libvirt != nil && !slices.ContainsFunc(w.policy.Rules, allowsDomains) {
		w.warn("lifecycle.libvirt", "no rule allows any of its domains: list some in "+
			"rules[].domains")
	}
}

// domains warns about domains without a libvirt, and about "*" for more than one namespace.
func (w *warner) domains(i int, rule policy.Rule) {
	path := fmt.Sprintf("rules[%d].domains", i)
	if len(rule.Domains) > 0 && w.policy.Lifecycle.Libvirt == nil {
		w.warn(path, "lifecycle.libvirt is missing: a launcher that declares a domain is refused")
	}
	if len(rule.Namespaces) == 1 && !strings.ContainsAny(rule.Namespaces[0], "*?[") {
		return
	}
	for n, glob := range rule.Domains {
		if strings.Trim(glob, "*") == "" {
			w.warn(fmt.Sprintf("%s[%d]", path, n), "a pod of any of the namespaces may bind, and "+
				"stop, "+
				"the VMs of all others; give each namespace a rule with domains of its own")
		}
	}
}
