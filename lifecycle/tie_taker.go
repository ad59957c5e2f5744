package lifecycle

import (
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// Taker is whoever in the pod takes requests to end its VM gracefully.
type Taker struct {
	Here  bool     `json:"here,omitempty"`  // it listens
	Until Boottime `json:"until,omitempty"` // it has listened, and is waited for until then
}

// PodStop is what a pod is asked for: to have its guest shut down.
type PodStop struct {
	Why string   // without what concerns the node
	Due Boottime // when it is gone on without the pod
}

// TakerCame says that somebody in the pod takes requests to end its VM gracefully.
type TakerCame struct{}

// TakerLeft says that nobody does any more.
type TakerLeft struct {
	Wait time.Duration // for it to come back
}

// AskPod asks the pod to have the guest shut down.
type AskPod struct{ VM VM }

func (AskPod) action() {}

func (TakerCame) apply(t *Tie, _ *step) { t.Taker = Taker{Here: true} }

func (i TakerLeft) apply(t *Tie, s *step) {
	until := s.now.Add(i.Wait)
	if !t.Taker.Here {
		until = min(until, t.Taker.Until)
	}
	t.Taker = Taker{Until: until}
	if until <= s.now {
		t.Taker = Taker{}
	}
}

// expected reports whether somebody takes requests, or may come back to do so.
func (t *Tie) expected(now Boottime) bool { return t.Taker.Here || now < t.Taker.Until }

// asksPod reports whether the pod is asked to end a VM process. A request means all
// that runs in the pod. What starts when everything has to end is not asked for: a pod
// could go on like that for ever.
func (t *Tie) asksPod(v *VM, now Boottime) bool {
	draining := t.Phase == agentapi.PhaseDraining
	late := draining && v.Since > t.Since || t.OwnerGone != "" && v.Since > t.OwnerGoneAt
	return (draining || len(t.VMs) == 1) && !late && !t.Terms.ProofOnly && t.expected(now)
}

// onTaker reports whether the guest of a VM process shuts down only if whoever takes
// requests in the pod sees to it.
func (t *Tie) onTaker(v *VM) bool {
	switch {
	case v.Stage != StageShutdown:
		return false
	case v.Domain != nil:
		return v.ByPod
	}
	return t.OwnerGone != "" || !t.StopAsked
}

// askPod asks the pod, which has the grace period for it.
func (t *Tie) askPod(v *VM, s *step) {
	v.enter(StageShutdown, t.Terms.GracePeriod, s)
	v.ByPod = true
	s.tell(agentapi.Normal, agentapi.ReasonVMShutdown, v.PID, "the pod is asked to shut down the guest of %s: %s", v.name(), v.Why)
	s.do(AskPod{*v})
}

// forsake goes on without the pod. libvirt has what is left of the grace period.
func (t *Tie) forsake(v *VM, s *step) {
	if v.Domain != nil {
		v.ByPod = false
		t.askLibvirt(v, s)
		return
	}
	if v.ByPod {
		s.tell(agentapi.Warning, agentapi.ReasonVMShutdown, v.PID, "nobody is left in the pod to shut down the guest of %s", v.name())
	}
	t.next(v, s)
}

// dueOf returns when a VM process whose end was begun wants to be looked at.
func (t *Tie) dueOf(v *VM) Boottime {
	if t.onTaker(v) && !t.Taker.Here {
		return min(v.Due, t.Taker.Until)
	}
	return v.Due
}

// podStop returns what the pod is asked for; nil: nothing.
func (t *Tie) podStop(now Boottime) (stop *PodStop) {
	for _, v := range t.VMs {
		if v.Stage != StageShutdown || v.Domain != nil && !v.ByPod || !t.expected(now) {
			continue
		}
		why, _, _ := strings.Cut(v.Why, ": ") // the proof can name cgroups of the node
		if stop == nil || v.Due < stop.Due {
			stop = &PodStop{Why: why, Due: v.Due}
		}
	}
	return stop
}
