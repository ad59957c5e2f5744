package decide

import (
	"fmt"
	"math"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// compareSpec compares the lock with the limit that the container would have without Mooring: that
// of its spec, or the runtime's. It refuses a container for which the NRI plugin ulimit-adjuster is
// asked to set the limit, too.
func (d *decider) compareSpec(limit host.Limit) {
	if d.facts.Exists {
		return // the guard compares the limits of the processes
	}
	spec := d.facts.SpecMemlock
	if spec != nil && spec.Covers(limit) {
		d.decision.Yield = true
		return
	}
	if key, ok := d.ulimitAdjusterKey(); ok {
		// The runtime refuses a limit from two plugins. Its message offers no remedy.
		d.refuse(agentapi.ReasonNeighbourMemlock, "annotation %s asks the NRI plugin "+
			"ulimit-adjuster to set RLIMIT_MEMLOCK, and annotations of this container ask for "+
			"%s: the runtime lets only one plugin set a limit; "+
			"remove memlock from %[1]s", key, limit)
		return
	}
	if len(d.faults) > 0 {
		return
	}
	if spec == nil {
		d.compareInherited(limit)
		return
	}
	d.note("the container's spec has RLIMIT_MEMLOCK %s (hard %s) already: raised to %s",
		spec.Soft, spec.Hard, limit)
}

// compareInherited keeps a sufficient limit of the runtime. The requested lock is an estimate and
// lowers no limit; a maximum of the policy does.
func (d *decider) compareInherited(limit host.Limit) {
	has := d.facts.Inherited
	if has == nil || !has.Covers(limit) || *has == (host.Rlimit{Soft: limit, Hard: limit}) {
		return
	}
	most := max(has.Soft, has.Hard)
	if d.rule.AllowMemlock(int64(min(most, math.MaxInt64)), most == host.Unlimited) == nil {
		d.decision.Yield = true
		return
	}
	message := fmt.Sprintf("RLIMIT_MEMLOCK %s of the container runtime lowered to the %s asked "+
		"for: rule %q of the node policy allows at most %s", most, limit, d.rule.Name,
		allowedLock(d.rule, false))
	d.note("%s", message)
	if d.decision.Mode == policy.Enforce {
		d.remark(agentapi.Normal, agentapi.ReasonLimitLowered, message)
	}
}

// ulimitAdjusterKey returns the annotation asking ulimit-adjuster to set RLIMIT_MEMLOCK. The plugin
// reads the annotation's YAML loosely, so any mention of the limit counts.
func (d *decider) ulimitAdjusterKey() (key string, ok bool) {
	for _, key := range d.facts.ulimitAdjusterKeys() {
		if strings.Contains(strings.ToLower(d.facts.Annotations[key]), "memlock") {
			return key, true
		}
	}
	return "", false
}

// ulimitAdjusterKeys are the annotations from which ulimit-adjuster reads limits of the container.
func (f Facts) ulimitAdjusterKeys() []string {
	return []string{"ulimits.noderesource.dev/container." + f.Container,
		"ulimits.nri.containerd.io/container." + f.Container}
}
