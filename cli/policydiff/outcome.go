package policydiff

import (
	"maps"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// Outcome is the result of a policy for a launcher.
type Outcome struct {
	Launcher bool   `json:"launcher"` // false: the policy leaves the container alone
	Mode     string `json:"mode"`
	Rule     string `json:"rule,omitempty"` // the deciding rule
	// values by setting, such as memlock; in mode observe as of mode enforce
	Settings map[string]string `json:"settings,omitempty"`
	Refusal  string            `json:"refusal,omitempty"` // in mode observe that of mode enforce
}

// today returns the outcome of the policy that decided about the launcher.
func today(l *agentapi.Launcher) Outcome {
	return Outcome{Launcher: true, Mode: l.Mode, Rule: l.Rule, Refusal: l.Refusal,
		Settings: values(l.Settings, l.Refusal != "")}
}

func outcomeOf(p *policy.Policy, d decide.Decision) Outcome {
	o := Outcome{Launcher: d.Launcher, Mode: string(p.Mode), Rule: d.Rule}
	if d.Refusal != nil {
		o.Refusal = d.Refusal.Message
	}
	o.Settings = values(d.Settings, d.Refusal != nil)
	return o
}

// values returns the value of each setting: the requested one, or the present one if it covers
// the request.
func values(settings []agentapi.Setting, refused bool) map[string]string {
	if refused || len(settings) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, s := range settings {
		all[s.Name] = s.Requested
		if s.Status == agentapi.StatusYielded {
			all[s.Name] = s.Given
		}
	}
	return all
}

// Refused reports whether the agent does not create the container.
func (o Outcome) Refused() bool {
	return o.Launcher && o.Refusal != "" && o.Mode == string(policy.Enforce)
}

// sameAs ignores rule and text of a refusal.
func (o Outcome) sameAs(other Outcome) bool {
	return o.Launcher == other.Launcher && o.Mode == other.Mode &&
		(o.Refusal == "") == (other.Refusal == "") && maps.Equal(o.Settings, other.Settings)
}

// String describes the outcome in a few words: mode, memory lock, and the other settings.
func (o Outcome) String() string {
	if !o.Launcher {
		return "left alone"
	}
	prefix := ""
	if o.Mode != string(policy.Enforce) {
		prefix = o.Mode + ": "
	}
	if o.Refusal != "" {
		return prefix + "refused"
	}
	lock, ok := o.Settings[agentapi.MemlockSetting]
	if !ok {
		lock = "no lock"
	}
	parts := []string{lock}
	for _, name := range slices.Sorted(maps.Keys(o.Settings)) {
		if name != agentapi.MemlockSetting {
			parts = append(parts, name+"="+o.Settings[name])
		}
	}
	return prefix + strings.Join(parts, " ")
}
