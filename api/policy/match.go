package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api"
)

// ErrAccountUnknown says that the decision needs a service account that is not
// known. It may become known later.
var ErrAccountUnknown = errors.New("the service account of this pod is not known to the agent, " +
	"which has no kubeconfig or does not know the pod yet")

// Match returns the rule that decides for a pod: the first one whose namespaces
// and service accounts match. known says whether the pod's service account is
// known; an agent without a connection to Kubernetes does not know it.
//
// The error says for people why there is no rule. A rule that names service
// accounts and matches the namespace of a pod whose service account is not known
// is such an error, too, and wraps [ErrAccountUnknown]: to go on to the next rule
// could grant more than the first would have.
func (p *Policy) Match(namespace, serviceAccount string, known bool) (Rule, error) {
	for _, r := range p.Rules {
		switch {
		case !matchAny(r.Namespaces, namespace):
			continue
		case len(r.ServiceAccounts) == 0:
			return r, nil
		case !known:
			return Rule{}, fmt.Errorf("rule %q of the node policy names service accounts, and %w", r.Name, ErrAccountUnknown)
		case matchAny(r.ServiceAccounts, serviceAccount):
			return r, nil
		}
	}
	if !known {
		return Rule{}, fmt.Errorf("no rule of the node policy matches namespace %q", namespace)
	}
	return Rule{}, fmt.Errorf("no rule of the node policy matches namespace %q and service account %q",
		namespace, serviceAccount)
}

func matchAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, _ := path.Match(glob, name) // Parse has refused malformed globs
		return ok
	})
}

// Profile returns the first profile that recognises a pod with these labels.
func (p *Policy) Profile(labels map[string]string) (Profile, bool) {
	at := slices.IndexFunc(p.Profiles, func(f Profile) bool { return f.recognises(labels) })
	if at < 0 {
		return Profile{}, false
	}
	return p.Profiles[at], true
}

func (f Profile) recognises(labels map[string]string) bool {
	for key, value := range f.PodLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return len(f.PodLabels) > 0
}

// AllowMemlock returns nil when a pod may lock this much: bytes, or without
// limit. The error names the rule, the amount and the ceiling.
func (r Rule) AllowMemlock(bytes int64, unlimited bool) error {
	switch {
	case unlimited && r.Memlock.Unlimited, !unlimited && bytes <= r.Memlock.Max:
		return nil
	case unlimited && r.Memlock.Max > 0:
		return fmt.Errorf("rule %q of the node policy allows no unlimited locked memory, but up to %s",
			r.Name, api.Bytes(r.Memlock.Max))
	case r.Memlock.Max > 0:
		return fmt.Errorf("rule %q of the node policy allows up to %s of locked memory, and %s is asked for",
			r.Name, api.Bytes(r.Memlock.Max), api.Bytes(bytes))
	}
	return fmt.Errorf("rule %q of the node policy allows no locked memory", r.Name)
}

// AllowCgroupFile returns nil when a pod may set the cgroup file. The error names
// the rule, the file and the files that the rule lists.
func (r Rule) AllowCgroupFile(name string) error {
	if slices.Contains(r.CgroupFiles, name) {
		return nil
	}
	if len(r.CgroupFiles) == 0 {
		return fmt.Errorf("rule %q of the node policy allows no cgroup files, and %s is asked for", r.Name, name)
	}
	return fmt.Errorf("rule %q of the node policy does not allow the cgroup file %s: it allows %s",
		r.Name, name, strings.Join(r.CgroupFiles, ", "))
}

// AllowDomain returns nil when a pod may bind the domain of the node's libvirt that
// it declares, by name or UUID. What it wrote is what is compared. The error names
// the rule, the domain and what the rule lists.
func (r Rule) AllowDomain(declared string) error {
	if matchAny(r.Domains, declared) {
		return nil
	}
	if len(r.Domains) == 0 {
		return fmt.Errorf("rule %q of the node policy allows no domains of the node's libvirt, and %q is asked for", r.Name, declared)
	}
	return fmt.Errorf("rule %q of the node policy does not allow the domain %q: it allows %s",
		r.Name, declared, strings.Join(r.Domains, ", "))
}
