package decide

import (
	"fmt"
	"math"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/memlock"
)

// RaiseFacts describe a running VM process and its request for a larger memory lock.
type RaiseFacts struct {
	// Facts describe the launcher now. Annotations, labels and the spec do not matter, because
	// the VM itself requests the lock.
	Facts

	// Current is the process's memory lock in the node's account.
	Current host.Limit

	// Desired is the requested memory lock.
	Desired host.Limit

	// Charged is the launcher's part of the node's account, in bytes.
	Charged int64

	// Refusal says why the policy refuses the launcher, if it runs in spite of that.
	Refusal string
}

// Raise decides about a larger memory lock for a running VM process: like [Container] about the
// same lock of a new launcher. A lock within the current one needs no rule. The error says
// why the process does not get the lock, in mode observe also whether mode enforce would raise it.
func Raise(p *policy.Policy, f RaiseFacts) error {
	err := decideRaise(p, f)
	switch {
	case p.Mode == policy.Enforce:
		return err
	case err != nil:
		return fmt.Errorf("the node policy is in mode %q, which changes nothing; mode enforce "+
			"would refuse: %w", p.Mode, err)
	}
	return fmt.Errorf("the node policy is in mode %q, which changes nothing; mode enforce would "+
		"raise the memory lock", p.Mode)
}

func decideRaise(p *policy.Policy, f RaiseFacts) error {
	if f.Desired <= f.Current {
		return nil
	}
	if err := raise(p, f); err != nil {
		return fmt.Errorf("mooring refuses to raise the memory lock of container %q of pod %s/%s "+
			"to %s: %w",
			f.Container, f.Pod.Namespace, f.Pod.Name, f.Desired, err)
	}
	return nil
}

func raise(p *policy.Policy, f RaiseFacts) error {
	if f.Refusal != "" {
		return fmt.Errorf("the launcher runs although the node policy refuses it: %s", f.Refusal)
	}
	rule, _, err := p.Match(f.Pod.Namespace, f.ServiceAccount, f.ServiceAccountKnown)
	if err != nil {
		return err
	}
	charge, _ := f.bound().Charge(f.Desired)
	f.Exists = charge <= f.Charged // then it demands nothing new of the node
	return checkLock(p, rule, f.Facts, f.Desired)
}

// checkLock checks a memory lock against the rule, the container's memory limit and the node's
// account. Creation and live raise both decide by it. The error names the bound and a remedy.
func checkLock(p *policy.Policy, rule policy.Rule, f Facts, lock host.Limit) error {
	unlimited, bytes := lock == host.Unlimited, int64(min(lock, math.MaxInt64))
	if err := rule.AllowMemlock(bytes, unlimited); err != nil {
		return fmt.Errorf("%w; ask for less, or have the policy changed", err)
	}
	if err := checkMemoryLimit(p, rule, f, unlimited); err != nil {
		return err
	}
	return checkNode(p, rule, f, lock)
}

// checkMemoryLimit returns an error if the memory lock needs a memory limit that bounds it, and has
// none.
func checkMemoryLimit(p *policy.Policy, rule policy.Rule, f Facts, unlimited bool) error {
	fault := limitFault(f, unlimited)
	switch {
	case fault == "":
		return nil
	case unlimited:
		return fmt.Errorf("rule %q of the node policy allows that, but an unlimited lock is "+
			"bounded by the container's memory limit alone, and %s", rule.Name, fault)
	case p.Memlock.RequireMemoryLimit:
		return fmt.Errorf("rule %q allows that, but the node policy requires a memory limit "+
			"(memlock.requireMemoryLimit), and %s", rule.Name, fault)
	}
	return nil
}

// limitFault says why the container's memory limit does not bound the memory lock, and names a
// remedy. It is empty if the limit bounds it. A limit beyond the node's memory bounds nothing.
func limitFault(f Facts, unlimited bool) string {
	switch {
	case f.Outside:
		remedy := "have the policy changed"
		if unlimited {
			remedy = "ask for a limited lock"
		}
		return fmt.Sprintf("the VM of container %q runs outside of its memory limit, in the node's "+
			"libvirt; %s", f.Container, remedy)
	case f.MemoryLimit <= 0:
		return fmt.Sprintf("container %q has none; set its resources.limits.memory", f.Container)
	case f.NodeMemory > 0 && f.MemoryLimit > f.NodeMemory:
		return fmt.Sprintf("container %q has one of %s, which is more than the node's memory of %s "+
			"and bounds nothing; lower its resources.limits.memory", f.Container,
			api.Bytes(f.MemoryLimit), api.Bytes(f.NodeMemory))
	}
	return ""
}

// bound returns the bound of the memory that the launcher's processes can lock together.
func (f Facts) bound() host.Bound {
	return host.Bound{Memory: f.MemoryLimit, HugePages: f.HugePages, Outside: f.Outside}
}

// checkNode checks the launcher's part of the node's account against the node's ceiling. An
// existing launcher passes, because it has its memory already.
func checkNode(p *policy.Policy, rule policy.Rule, f Facts, lock host.Limit) error {
	most := p.Memlock.NodeMax
	charge, bounded := f.bound().Charge(lock)
	if f.Exists || most == 0 || charge <= most-f.NodeGranted {
		return nil
	}
	why := "its memory limit and huge pages"
	switch {
	case f.Outside:
		why = "including its VM in the node's libvirt"
	case !bounded:
		why = "its memory lock, for want of a memory limit"
	}
	return fmt.Errorf("rule %q allows that, but the node policy allows %s for all launchers of "+
		"this node together "+
		"(memlock.nodeMax), and others have %s; this one counts with %s, %s; %srun the pod "+
		"elsewhere, or wait until others stop",
		rule.Name, api.Bytes(most), api.Bytes(f.NodeGranted), api.Bytes(charge), why,
		f.unknownHugePages())
}

// unknownHugePages says why the node's account has an upper bound of the launcher's huge pages. It
// is empty if the limit is known or does not count.
func (f Facts) unknownHugePages() string {
	if f.HugePagesUnknown == nil || f.MemoryLimit <= 0 {
		return ""
	}
	return fmt.Sprintf("its huge-page limit is unknown and counts as %s: %s; ",
		api.Bytes(f.HugePages), f.HugePagesUnknown)
}

// ceiling returns the largest lock [Raise] can allow for a launcher, regardless of the node's
// account. nil: none.
func ceiling(p *policy.Policy, rule policy.Rule, f Facts) *host.Limit {
	switch {
	case rule.Memlock.Unlimited && checkMemoryLimit(p, rule, f, true) == nil:
		return new(host.Unlimited)
	case rule.Memlock.Max > 0 && checkMemoryLimit(p, rule, f, false) == nil:
		return new(host.Limit(rule.Memlock.Max))
	}
	return nil
}

// allowMemlock checks a required lock against policy, node and spec.
func (d *decider) allowMemlock(request api.Request, lock memlock.Result) {
	if !lock.Required {
		return
	}
	d.setting(agentapi.MemlockSetting).Allowed = allowedLock(d.rule, lock.Unlimited)
	if err := checkLock(d.policy, d.rule, d.facts, limitOf(lock)); err != nil {
		d.refuse(agentapi.ReasonMemlockRefused, "%s: %s%s", d.requestedLock(lock), err,
			d.withoutResize(request))
	}
	if unknown := d.facts.unknownHugePages(); unknown != "" {
		d.note("%s", strings.TrimSuffix(unknown, "; "))
	}
	if _, bounded := d.facts.bound().Charge(limitOf(lock)); !bounded {
		why := "without a memory limit"
		if d.facts.Outside {
			why = "with a VM in the node's libvirt"
		}
		d.note("unbounded: %s, the processes together may lock more than the node's account has "+
			"for the launcher", why)
	}
	d.compareSpec(limitOf(lock))
}

// withoutResize names a smaller lock that the policy allows, if the pod asks for a size beyond it.
// The launcher is refused all the same: a VM of this size can arrive by migration, and would fail
// to pin its memory.
func (d *decider) withoutResize(request api.Request) string {
	if request.Size.Memory == 0 {
		return ""
	}
	request.Size.Memory = 0
	lock, err := d.computeLock(request)
	if err != nil || checkLock(d.policy, d.rule, d.facts, limitOf(lock)) != nil {
		return ""
	}
	return fmt.Sprintf("; without %s the lock is %s, which the policy allows", api.ResizeMemoryKey,
		limitOf(lock))
}

// allowedLock returns the rule's bound on a lock for people.
func allowedLock(rule policy.Rule, unlimited bool) string {
	switch {
	case unlimited && rule.Memlock.Unlimited:
		return api.Unlimited
	case rule.Memlock.Max == math.MaxInt64:
		return "any amount"
	}
	return api.Bytes(rule.Memlock.Max).String()
}
