package decide

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
	"github.com/mooring-vm/mooring/memlock"
)

// allowMemlock holds a required lock against the rule, the container and the node.
func (d *decider) allowMemlock(rule policy.Rule, lock memlock.Result) {
	if !lock.Required {
		return
	}
	limit := limitOf(lock)
	d.setting(agentapi.MemlockSetting).Allowed = ceiling(rule, lock.Unlimited)
	if err := rule.AllowMemlock(lock.Bytes, lock.Unlimited); err != nil {
		d.refuse(agentapi.ReasonMemlockRefused, "%s: %s; ask for less, or have the policy changed", d.askedLock(lock), err)
		return
	}
	d.boundUnlimited(rule, lock)
	d.allowOnNode(rule, lock)
	d.meetSpec(limit)
}

// boundUnlimited holds an unlimited lock against the memory limit that bounds it.
// One beyond the node's memory bounds nothing.
func (d *decider) boundUnlimited(rule policy.Rule, lock memlock.Result) {
	limit, node := d.facts.MemoryLimit, d.facts.NodeMemory
	var has string
	switch {
	case !lock.Unlimited:
		return
	case limit <= 0:
		has = "none; set its resources.limits.memory"
	case node > 0 && limit > node:
		has = fmt.Sprintf("one of %s, which is more than the node's memory of %s and bounds nothing; "+
			"lower its resources.limits.memory", api.Bytes(limit), api.Bytes(node))
	default:
		return
	}
	d.refuse(agentapi.ReasonMemlockRefused, "%s: rule %q of the node policy allows that, "+
		"but an unlimited lock is bounded by the container's memory limit alone, and container %q has %s",
		d.askedLock(lock), rule.Name, d.facts.Container, has)
}

func ceiling(rule policy.Rule, unlimited bool) string {
	switch {
	case unlimited && rule.Memlock.Unlimited:
		return api.Unlimited
	case rule.Memlock.Max == math.MaxInt64:
		return "any amount"
	}
	return api.Bytes(rule.Memlock.Max).String()
}

// allowOnNode holds the lock against the node's ceiling. What is unlimited does
// not count: rules say where that may be, and memory limits bound it. Nor is what
// runs already held to it: the ceiling is for those that come.
func (d *decider) allowOnNode(rule policy.Rule, lock memlock.Result) {
	most, granted := d.policy.Memlock.NodeMax, d.facts.NodeGranted
	if d.facts.Exists || most == 0 || lock.Unlimited || lock.Bytes <= most-granted {
		return
	}
	d.refuse(agentapi.ReasonMemlockRefused, "%s: rule %q allows that, "+
		"but the node policy allows %s for all launchers of this node together "+
		"(memlock.nodeMax), and others have %s; run the pod elsewhere, or wait until others stop",
		d.askedLock(lock), rule.Name, api.Bytes(most), api.Bytes(granted))
}

// meetSpec deals with a limit that the container's spec has already, and with a
// neighbour who is asked to put one there.
func (d *decider) meetSpec(limit lifecycle.Limit) {
	if d.facts.Exists {
		return // too late for the spec: the guard looks at the processes
	}
	spec := d.facts.SpecMemlock
	if spec != nil && spec.Covers(limit) {
		d.decision.Yield = true
		return
	}
	if key, ok := d.neighbour(); ok {
		// Runtimes refuse a container of which two plugins set the same
		// limit, with a message that does not say what to do.
		d.refuse(agentapi.ReasonNeighbourMemlock, "annotation %s asks the NRI plugin ulimit-adjuster to set RLIMIT_MEMLOCK, "+
			"and annotations of this container ask for %s: the runtime lets only one plugin set a limit; "+
			"remove memlock from %[1]s", key, limit)
		return
	}
	if spec != nil {
		d.note(fmt.Sprintf("the container's spec has RLIMIT_MEMLOCK %s (hard %s) already: raised to %s",
			spec.Soft, spec.Hard, limit))
	}
}

// neighbour returns the annotation, if any, by which the plugin ulimit-adjuster is
// asked to set RLIMIT_MEMLOCK. Its value is YAML that the plugin reads loosely; so
// the name of the limit is all that is looked for.
func (d *decider) neighbour() (key string, ok bool) {
	for _, base := range []string{"ulimits.noderesource.dev", "ulimits.nri.containerd.io"} {
		key := base + "/container." + d.facts.Container
		if strings.Contains(strings.ToLower(d.facts.Annotations[key]), "memlock") {
			return key, true
		}
	}
	return "", false
}

// allowFile holds a cgroup setting against the rule and the node.
func (d *decider) allowFile(rule policy.Rule, s api.CgroupSetting) {
	asked := "annotation " + d.written(s.File+api.CgroupSuffix)
	if err := rule.AllowCgroupFile(s.File); err != nil {
		d.refuse(agentapi.ReasonCgroupRefused, "%s: %s; remove the annotation, or have the policy changed", asked, err)
		return
	}
	controller, _, _ := strings.Cut(s.File, ".")
	if known := d.facts.Controllers; known != nil && !slices.Contains(known, controller) {
		d.refuse(agentapi.ReasonCgroupRefused, "%s: containers of this node have no %s controller, only %s; "+
			"remove the annotation, or run the pod elsewhere", asked, controller, strings.Join(known, ", "))
		return
	}
	d.setting(s.File).Allowed = s.Value
}
