package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api"
)

// ErrAccountUnknown says that the decision needs the pod's service account, which the agent does
// not know yet.
var ErrAccountUnknown = errors.New("the service account of this pod is not known to the agent, " +
	"which has no kubeconfig or does not know the pod yet")

// Comparison is the result of comparing a rule with a pod.
type Comparison string

// The results of a comparison.
const (
	RuleMatches      Comparison = "matches"
	NamespaceDiffers Comparison = "namespace differs"
	AccountDiffers   Comparison = "service account differs"
	// and the rule names service accounts
	AccountUndetermined Comparison = "service account unknown"
)

// Match returns the rule that decides for a pod: the first one with matching namespaces and service
// accounts. known is false when the agent does not know the pod's service account, for example
// without a connection to Kubernetes. compared holds a result for each rule that Match has
// compared, in the order of the policy.
//
// The error says why there is no rule. It wraps [ErrAccountUnknown] if the first rule for the
// namespace names service accounts and the pod's is unknown. Match does not try the next rule
// then, because that rule could grant more.
func (p *Policy) Match(
	namespace, serviceAccount string, known bool,
) (rule Rule, compared []Comparison, err error) {
	for _, r := range p.Rules {
		result := r.compare(namespace, serviceAccount, known)
		compared = append(compared, result)
		switch result {
		case RuleMatches:
			return r, compared, nil
		case AccountUndetermined:
			return Rule{}, compared, fmt.Errorf("rule %q of the node policy names service "+
				"accounts, and %w", r.Name, ErrAccountUnknown)
		}
	}
	if !known {
		return Rule{}, compared, fmt.Errorf("no rule of the node policy matches namespace %q",
			namespace)
	}
	return Rule{}, compared, fmt.Errorf("no rule of the node policy matches namespace %q and "+
		"service account %q",
		namespace, serviceAccount)
}

func (r Rule) compare(namespace, serviceAccount string, known bool) Comparison {
	switch {
	case !matchAny(r.Namespaces, namespace):
		return NamespaceDiffers
	case len(r.ServiceAccounts) == 0:
		return RuleMatches
	case !known:
		return AccountUndetermined
	case matchAny(r.ServiceAccounts, serviceAccount):
		return RuleMatches
	}
	return AccountDiffers
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

// AllowMemlock returns nil if a pod may lock this amount: bytes, or without limit. The error names
// the rule, the amount and the ceiling.
func (r Rule) AllowMemlock(bytes int64, unlimited bool) error {
	switch {
	case unlimited && r.Memlock.Unlimited, !unlimited && bytes <= r.Memlock.Max:
		return nil
	case unlimited && r.Memlock.Max > 0:
		return fmt.Errorf("rule %q of the node policy allows no unlimited locked memory, but "+
			"up to %s",
			r.Name, api.Bytes(r.Memlock.Max))
	case r.Memlock.Max > 0:
		return fmt.Errorf("rule %q of the node policy allows up to %s of locked memory, but the "+
			"pod asks for %s",
			r.Name, api.Bytes(r.Memlock.Max), api.Bytes(bytes))
	}
	return fmt.Errorf("rule %q of the node policy allows no locked memory", r.Name)
}

// AllowCgroupFile returns nil if a pod may set the cgroup file. The error names the rule, the file
// and the allowed files.
func (r Rule) AllowCgroupFile(name string) error {
	if slices.Contains(r.CgroupFiles, name) {
		return nil
	}
	if len(r.CgroupFiles) == 0 {
		return fmt.Errorf("rule %q of the node policy allows no cgroup files, but the pod asks "+
			"for %s", r.Name, name)
	}
	return fmt.Errorf("rule %q of the node policy does not allow the cgroup file %s: it allows %s",
		r.Name, name, strings.Join(r.CgroupFiles, ", "))
}

// AllowDomain returns nil if a pod may bind the declared domain of the node's libvirt. It compares
// the declared name or UUID as written. The error names the rule, the domain and the allowed
// domains.
func (r Rule) AllowDomain(declared string) error {
	if matchAny(r.Domains, declared) {
		return nil
	}
	if len(r.Domains) == 0 {
		return fmt.Errorf("rule %q of the node policy allows no domains of the node's libvirt, "+
			"but the pod asks for %q", r.Name, declared)
	}
	return fmt.Errorf("rule %q of the node policy does not allow the domain %q: it allows %s",
		r.Name, declared, strings.Join(r.Domains, ", "))
}
