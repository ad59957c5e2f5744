package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// conclude derives refusal, demand, remark and the state of each setting from the collected
// requests and faults.
func (d *decider) conclude() {
	d.decision.Refusal = d.refusal()
	d.decision.Demand = d.demand()
	if !d.decision.Undecided {
		d.addRemark()
	}
	for i := range d.decision.Settings {
		d.concludeSetting(&d.decision.Settings[i])
	}
}

// addRemark reports a refusal or a yielded limit, and in observe mode what enforce mode would set. A
// yielded limit is a sufficient limit of the container's spec or of the runtime, which Mooring
// leaves unchanged.
func (d *decider) addRemark() {
	refusal, observe := d.decision.Refusal, d.decision.Mode != policy.Enforce
	switch {
	case refusal != nil && observe:
		d.remark(agentapi.Warning, agentapi.ReasonWouldRefuse, policy.Observing+refusal.Message)
	case refusal != nil:
		d.remark(agentapi.Warning, refusal.Reason, refusal.Message)
	case observe && d.decision.Yield && d.outcome() == "":
		d.remark(agentapi.Normal, agentapi.ReasonWouldSet, policy.Observing+d.yielded())
	case observe && d.decision.Yield:
		d.remark(agentapi.Normal, agentapi.ReasonWouldSet, policy.Observing+d.yielded()+"; would set "+
			d.outcome())
	case observe && len(d.decision.Settings) > 0:
		d.remark(agentapi.Normal, agentapi.ReasonWouldSet, policy.Observing+"would set "+d.outcome())
	case d.decision.Yield:
		d.remark(agentapi.Normal, agentapi.ReasonLimitYielded, d.yielded())
	}
}

// concludeSetting fills in status, given value and message of a setting.
func (d *decider) concludeSetting(s *agentapi.Setting) {
	yield := d.decision.Yield && s.Name == agentapi.MemlockSetting
	switch {
	case d.decision.Mode != policy.Enforce:
		s.Status = agentapi.StatusObserved
	case d.decision.Refusal != nil:
		s.Status = agentapi.StatusRefused
	case d.decision.Undecided:
		s.Status, s.Message = agentapi.StatusUnknown, policy.ErrAccountUnknown.Error()
	case yield:
		s.Status, s.Given, s.Message = agentapi.StatusYielded, d.present().Soft.String(),
			d.yielded()
	default:
		s.Status, s.Given = agentapi.StatusPending, s.Requested
	}
}

// demand returns the memory lock by which the node's account charges the launcher, nil for no
// charge. For a new launcher it is the requested lock. For an existing one it is at least the
// present limit, even if the policy would now refuse it, because a process may have locked this
// memory.
func (d *decider) demand() *host.Limit {
	requested, refused := d.decision.Memlock, d.decision.Refusal != nil
	if !d.facts.Exists {
		if refused {
			return nil
		}
		return requested
	}
	if requested == nil && !refused {
		return nil // it requests nothing: as when it was new
	}
	switch {
	case refused || d.decision.Undecided:
		// An unapproved request must not take the ceiling from other launchers.
		return largest(nil, d.facts.SpecMemlock)
	case requested != nil && *requested == host.Unlimited:
		return requested
	}
	return largest(requested, d.facts.SpecMemlock)
}

// SpecDemand returns the demand of a launcher of which only the spec is known. nil: none.
func SpecDemand(spec *host.Rlimit) *host.Limit { return largest(nil, spec) }

// largest returns the largest finite limit, or unlimited if none is finite. An unlimited hard limit
// of the runtime thus does not count. It returns nil if neither is given.
func largest(requested *host.Limit, spec *host.Rlimit) *host.Limit {
	var limits []host.Limit
	if requested != nil {
		limits = append(limits, *requested)
	}
	if spec != nil {
		limits = append(limits, spec.Soft, spec.Hard)
	}
	if len(limits) == 0 {
		return nil
	}
	finite := slices.DeleteFunc(slices.Clone(limits),
		func(l host.Limit) bool { return l == host.Unlimited })
	if len(finite) > 0 {
		limits = finite
	}
	return new(slices.Max(limits))
}

// present is the limit of the container without Mooring.
func (d *decider) present() *host.Rlimit {
	if d.facts.SpecMemlock != nil {
		return d.facts.SpecMemlock
	}
	return d.facts.Inherited
}

func (d *decider) yielded() string {
	from := "the container's spec has"
	if d.facts.SpecMemlock == nil {
		from = "the container inherits"
	}
	return fmt.Sprintf("%s RLIMIT_MEMLOCK %s already, which covers the %s asked for: left alone",
		from, d.present().Soft, d.decision.Memlock)
}

// outcome lists the settings of enforce mode, without a memory lock covered by the spec.
func (d *decider) outcome() string {
	var all []string
	for _, s := range d.decision.Settings {
		switch {
		case s.Name != agentapi.MemlockSetting:
			all = append(all, s.Name+" to "+s.Requested)
		case !d.decision.Yield:
			all = append(all, "RLIMIT_MEMLOCK to "+s.Requested)
		}
	}
	return strings.Join(all, ", ")
}
