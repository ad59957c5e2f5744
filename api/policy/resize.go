package policy

import "slices"

// Resize bounds the size that a pod may ask for in a live resize. The zero value bounds nothing.
type Resize struct {
	MaxMemory int64 // bytes of the guest; 0: no bound
	MaxVCPUs  int   // 0: no bound
}

// MatchResize is [Policy.Match] for the size that a running pod asks for. In a policy without bounds
// every pod may ask for every size: the result is the zero Rule.
func (p *Policy) MatchResize(namespace, serviceAccount string, known bool) (Rule, error) {
	if !slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Resize != Resize{} }) {
		return Rule{}, nil
	}
	rule, _, err := p.Match(namespace, serviceAccount, known)
	return rule, err
}
