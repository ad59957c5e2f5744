package tie

import (
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// StopHandler is whoever in the pod takes requests to end its VM gracefully.
type StopHandler struct {
	Connected bool          `json:"here,omitempty"`  // it listens
	Until     host.Boottime `json:"until,omitempty"` // it has listened, and is waited for until then
}

// PodStop is what a pod is asked for: to have its guest shut down.
type PodStop struct {
	Why string        // without what concerns the node
	Due host.Boottime // when it is gone on without the pod
}

// StopHandlerConnected says that somebody in the pod takes requests to end its VM gracefully.
type StopHandlerConnected struct{}

// StopHandlerDisconnected says that nobody does any more.
type StopHandlerDisconnected struct {
	Wait time.Duration // for it to come back
}

// RequestShutdown asks the pod to have the guest shut down.
type RequestShutdown struct{ VM VM }

func (RequestShutdown) action() {}

func (StopHandlerConnected) apply(t *Tie, _ *step) { t.StopHandler = StopHandler{Connected: true} }

func (i StopHandlerDisconnected) apply(t *Tie, s *step) {
	until := s.now.Add(i.Wait)
	if !t.StopHandler.Connected {
		until = min(until, t.StopHandler.Until)
	}
	t.StopHandler = StopHandler{Until: until}
	if until <= s.now {
		t.StopHandler = StopHandler{}
	}
}

// expected reports whether somebody takes requests, or may come back to do so.
func (t *Tie) expected(now host.Boottime) bool {
	return t.StopHandler.Connected || now < t.StopHandler.Until
}

// asksPod reports whether the pod is asked to end a VM process. A request means all
// that runs in the pod. What starts when everything has to end is not asked for: a pod
// could go on like that for ever.
func (t *Tie) asksPod(v *VM, now host.Boottime) bool {
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
	return t.OwnerGone != "" || !t.StopRequested
}

// askPod asks the pod, which has the grace period for it.
func (t *Tie) askPod(v *VM, s *step) {
	v.enter(StageShutdown, t.Terms.GracePeriod, s)
	v.ByPod = true
	s.tell(agentapi.Normal, agentapi.ReasonVMShutdown, v.PID, "the pod is asked to shut down the guest of %s: %s", v.Describe(), v.Why)
	s.do(RequestShutdown{*v})
}

// forsake goes on without the pod. libvirt has what is left of the grace period.
func (t *Tie) forsake(v *VM, s *step) {
	if v.Domain != nil {
		v.ByPod = false
		t.askLibvirt(v, s)
		return
	}
	if v.ByPod {
		s.tell(agentapi.Warning, agentapi.ReasonVMShutdown, v.PID, "nobody is left in the pod to shut down the guest of %s", v.Describe())
	}
	t.next(v, s)
}

// dueOf returns when a VM process whose end was begun wants to be looked at.
func (t *Tie) dueOf(v *VM) host.Boottime {
	if t.onTaker(v) && !t.StopHandler.Connected {
		return min(v.Due, t.StopHandler.Until)
	}
	return v.Due
}

// PodStop returns what the pod is asked for; nil: nothing.
func (t *Tie) PodStop(now host.Boottime) (stop *PodStop) {
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
