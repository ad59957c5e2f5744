package plugin

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
)

// conclude turns what was found into the decision's outcome, for the mode that
// the policy is in.
func (d *decider) conclude() {
	d.decision.Refusal = d.refusal()
	refusal, observe := d.decision.Refusal, d.decision.Mode != policy.Enforce
	switch {
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
	case yield:
		s.Status, s.Given, s.Message = agentapi.StatusYielded, d.facts.SpecMemlock.Soft.String(), d.yielded()
	default:
		s.Status, s.Given = agentapi.StatusPending, s.Asked
	}
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
