package decide

import (
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// compareSpec compares the lock with the limit in the container's spec. It refuses a container
// for which the NRI plugin ulimit-adjuster is asked to set the limit, too.
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
	if spec != nil && len(d.faults) == 0 {
		d.note("the container's spec has RLIMIT_MEMLOCK %s (hard %s) already: raised to %s",
			spec.Soft, spec.Hard, limit)
	}
}

// ulimitAdjusterKey returns the annotation asking ulimit-adjuster to set RLIMIT_MEMLOCK. The plugin
// reads the annotation's YAML loosely, so any mention of the limit counts.
func (d *decider) ulimitAdjusterKey() (key string, ok bool) {
	for _, base := range []string{"ulimits.noderesource.dev", "ulimits.nri.containerd.io"} {
		key := base + "/container." + d.facts.Container
		if strings.Contains(strings.ToLower(d.facts.Annotations[key]), "memlock") {
			return key, true
		}
	}
	return "", false
}
