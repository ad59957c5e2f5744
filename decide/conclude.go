package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
)

// conclude turns what was found into the decision's outcome, for the mode that
// the policy is in.
func (d *decider) conclude() {
	d.decision.Refusal = d.refusal()
	d.decision.Demand = d.demand()
	refusal, observe := d.decision.Refusal, d.decision.Mode != policy.Enforce
	switch {
	case d.decision.Undecided:
	case refusal != nil && observe:
		d.remark(agentapi.Warning, agentapi.ReasonWouldRefuse, "observe mode, nothing is done: "+refusal.Message)
	case refusal != nil:
		d.remark(agentapi.Warning, refusal.Reason, refusal.Message)
	case observe && d.decision.Yield:
		d.remark(agentapi.Normal, agentapi.ReasonWouldSet, strings.TrimSuffix(
			"observe mode, nothing is done: "+d.yielded()+"; would set "+d.outcome(), "; would set "))
	case observe && len(d.decision.Settings) > 0:
		d.remark(agentapi.Normal, agentapi.ReasonWouldSet, "observe mode, nothing is done: would set "+d.outcome())
	case d.decision.Yield:
		d.remark(agentapi.Normal, agentapi.ReasonLimitYielded, d.yielded())
	}
	for i := range d.decision.Settings {
		d.mark(&d.decision.Settings[i])
	}
}

// mark says what becomes of a setting.
func (d *decider) mark(s *agentapi.Setting) {
	yield := d.decision.Yield && s.Name == agentapi.MemlockSetting
	switch {
	case d.decision.Mode != policy.Enforce:
		s.Status = agentapi.StatusObserved
	case d.decision.Refusal != nil:
		s.Status = agentapi.StatusRefused
	case d.decision.Undecided:
		s.Status, s.Message = agentapi.StatusUnknown, policy.ErrAccountUnknown.Error()
	case yield:
		s.Status, s.Given, s.Message = agentapi.StatusYielded, d.facts.SpecMemlock.Soft.String(), d.yielded()
	default:
		s.Status, s.Given = agentapi.StatusPending, s.Asked
	}
}

// demand is what the launcher counts for in the node's account: what it is given.
// What runs already counts whatever is thought of it now: its memory is locked.
func (d *decider) demand() *lifecycle.Limit {
	asked, refused := d.decision.Memlock, d.decision.Refusal != nil
	if !d.facts.Exists {
		if refused {
			return nil
		}
		return asked
	}
	if asked == nil && !refused {
		return nil // as when it was created
	}
	switch {
	case !d.allowed():
		// What a pod merely asks for must not use up the node: only what it got.
		return largest(nil, d.facts.SpecMemlock)
	case asked != nil && *asked == lifecycle.Unlimited:
		return asked
	}
	return largest(asked, d.facts.SpecMemlock)
}

func (d *decider) allowed() bool { return d.decision.Refusal == nil && !d.decision.Undecided }

// largest returns the largest finite one of the limits, else an unlimited one.
func largest(asked *lifecycle.Limit, spec *lifecycle.Rlimit) *lifecycle.Limit {
	var limits []lifecycle.Limit
	if asked != nil {
		limits = append(limits, *asked)
	}
	if spec != nil {
		limits = append(limits, spec.Soft, spec.Hard)
	}
	if len(limits) == 0 {
		return nil
	}
	finite := slices.DeleteFunc(slices.Clone(limits), func(l lifecycle.Limit) bool { return l == lifecycle.Unlimited })
	if len(finite) > 0 {
		limits = finite
	}
	return new(slices.Max(limits))
}

func (d *decider) yielded() string {
	return fmt.Sprintf("the container's spec has RLIMIT_MEMLOCK %s already, and %s is asked for: left alone",
		d.facts.SpecMemlock.Soft, d.decision.Memlock)
}

// outcome lists what is set: not a memory lock that is left alone.
func (d *decider) outcome() string {
	var all []string
	for _, s := range d.decision.Settings {
		name := s.Name
		if name == agentapi.MemlockSetting {
			if d.decision.Yield {
				continue
			}
			name = "RLIMIT_MEMLOCK"
		}
		all = append(all, name+" to "+s.Asked)
	}
	return strings.Join(all, ", ")
}
