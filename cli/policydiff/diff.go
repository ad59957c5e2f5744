package policydiff

import (
	"fmt"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// Launcher is a launcher and the facts for a new decision about it.
type Launcher struct {
	agentapi.Launcher
	Node    string        // empty: the only node
	Facts   *decide.Facts // nil: unknown
	Missing string        // why Facts are unknown

	// OnlyAccount is set for a launcher that only counts in the node's account.
	OnlyAccount bool
}

// Kind is the most important difference between two outcomes.
type Kind string

// The kinds of changes, the most important first.
const (
	Refused   Kind = "refused"   // mode enforce refuses the launcher, and did not before
	Unknown   Kind = "unknown"   // the facts do not decide
	LeftAlone Kind = "leftAlone" // the policy does not recognise the launcher
	Settings  Kind = "settings"  // other settings, or a refusal of mode observe
	Allowed   Kind = "allowed"   // refused before
	Mode      Kind = "mode"      // only the mode differs
)

// Change is a launcher with another outcome.
type Change struct {
	Node      string          `json:"node,omitempty"`
	Pod       agentapi.PodRef `json:"pod"`
	Container string          `json:"container"`
	Kind      Kind            `json:"kind"`
	Today     Outcome         `json:"today"`
	Next      *Outcome        `json:"next,omitempty"` // absent: unknown
	Reason    string          `json:"reason"`
}

// Report has the changes by a policy in the order of the launchers.
type Report struct {
	Mode      string   `json:"mode"`      // of the new policy
	Launchers int      `json:"launchers"` // examined
	Changes   []Change `json:"changes"`
}

// Count returns the number of changes of a kind.
func (r Report) Count(k Kind) (n int) {
	for _, c := range r.Changes {
		if c.Kind == k {
			n++
		}
	}
	return n
}

// Diff decides about each launcher as if its pod were created again while the others run. It lists
// the launchers with another outcome, and ignores stopped ones. The result of a launcher without
// facts is unknown.
func Diff(p *policy.Policy, all []Launcher) Report {
	report := Report{Mode: string(p.Mode), Changes: []Change{}}
	accounts := newAccounts(p, all)
	for i := range all {
		l := &all[i]
		if l.State == agentapi.StateStopped || l.OnlyAccount {
			continue
		}
		report.Launchers++
		if c, changed := compare(p, l, accounts.without(i, l.Node)); changed {
			report.Changes = append(report.Changes, c)
		}
	}
	return report
}

func compare(p *policy.Policy, l *Launcher, others int64) (Change, bool) {
	c := Change{Node: l.Node, Pod: l.Pod, Container: l.Container.Name, Today: today(&l.Launcher)}
	if l.Facts == nil {
		c.Kind, c.Reason = Unknown, l.Missing
		return c, true
	}
	facts := *l.Facts
	facts.NodeGranted = others
	d := decide.Container(p, facts)
	if accountMissing(p, facts) {
		c.Kind, c.Reason = Unknown, policy.ErrAccountUnknown.Error()
		return c, true
	}
	next := outcomeOf(p, d)
	c.Next = &next
	c.Kind, c.Reason = difference(c.Today, next)
	return c, !c.Today.sameAs(next)
}

// accountMissing reports whether the decision needs a service account that is unknown here. The
// agent may know it at the next creation.
func accountMissing(p *policy.Policy, f decide.Facts) bool {
	f.Exists = true
	return decide.Container(p, f).Undecided
}

func difference(before, next Outcome) (Kind, string) {
	switch {
	case !next.Launcher:
		return LeftAlone, "no profile of the policy matches the pod's labels"
	case next.Refused() && !before.Refused():
		return Refused, next.Refusal
	case next.Refusal != "":
		return Settings, next.Refusal
	case before.Refusal != "":
		return Allowed, byRule(next)
	case before.Mode != next.Mode:
		return Mode, fmt.Sprintf("mode %s instead of %s", next.Mode, before.Mode)
	}
	return Settings, byRule(next)
}

func byRule(o Outcome) string {
	if o.Rule == "" {
		return "it asks for nothing that needs a rule"
	}
	return fmt.Sprintf("rule %q allows it", o.Rule)
}
