package tie

import (
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// StopHandler is whoever in the pod takes requests to end its VM gracefully.
type StopHandler struct {
	Connected  bool          `json:"here,omitempty"`  // it listens
	AwaitUntil host.Boottime `json:"until,omitempty"` // it has listened, and is waited for until then
}

// PodStop is what a pod is asked for: to have its guest shut down.
type ShutdownRequest struct {
	Why string        // without what concerns the node
	Due host.Boottime // when it is gone on without the pod
}

// StopHandlerConnected says that somebody in the pod takes requests to end its VM gracefully.
type StopHandlerConnected struct{}

// StopHandlerDisconnected says that nobody does any more.
type StopHandlerDisconnected struct {
	Wait time.Duration // for it to come back
}

// ShutdownByPod asks the pod to have the guest shut down.
type ShutdownByPod struct{ VM VM }

func (ShutdownByPod) action() {}

func (StopHandlerConnected) apply(t *Tie, _ *step) { t.StopHandler = StopHandler{Connected: true} }

func (i StopHandlerDisconnected) apply(t *Tie, s *step) {
	until := s.now.Add(i.Wait)
	if !t.StopHandler.Connected {
		until = min(until, t.StopHandler.AwaitUntil)
	}
	t.StopHandler = StopHandler{AwaitUntil: until}
	if until <= s.now {
		t.StopHandler = StopHandler{}
	}
}

// awaitsStopHandler reports whether somebody takes requests, or may come back to do so.
func (t *Tie) awaitsStopHandler(now host.Boottime) bool {
	return t.StopHandler.Connected || now < t.StopHandler.AwaitUntil
}

// canAskPod reports whether the pod is asked to end a VM process. A request means all
// that runs in the pod. What starts when everything has to end is not asked for: a pod
// could go on like that for ever.
func (t *Tie) canAskPod(v *VM, now host.Boottime) bool {
	draining := t.Phase == agentapi.PhaseDraining
	late := draining && v.Since > t.Since || t.LauncherGone != "" && v.Since > t.LauncherGoneAt
	return (draining || len(t.VMs) == 1) && !late && !t.Terms.ProofOnly && t.awaitsStopHandler(now)
}

// dependsOnStopHandler reports whether the guest of a VM process shuts down only if whoever takes
// requests in the pod sees to it.
func (t *Tie) dependsOnStopHandler(v *VM) bool {
	switch {
	case v.Stage != StageShutdown:
		return false
	case v.Domain != nil:
		return v.PodAsked
	}
	return t.LauncherGone != "" || !t.StopRequested
}

// shutdownByPod asks the pod, which has the grace period for it.
func (t *Tie) shutdownByPod(v *VM, s *step) {
	v.setStage(StageShutdown, t.Terms.GracePeriod, s)
	v.PodAsked = true
	s.report(agentapi.Normal, agentapi.ReasonVMShutdown, v.PID, "the pod is asked to shut down the guest of %s: %s", v.Describe(), v.Why)
	s.act(ShutdownByPod{*v})
}

// continueWithoutPod goes on without the pod. libvirt has what is left of the grace period.
func (t *Tie) continueWithoutPod(v *VM, s *step) {
	if v.Domain != nil {
		v.PodAsked = false
		t.shutdownByLibvirt(v, s)
		return
	}
	if v.PodAsked {
		s.report(agentapi.Warning, agentapi.ReasonVMShutdown, v.PID, "nobody is left in the pod to shut down the guest of %s", v.Describe())
	}
	t.nextStage(v, s)
}

// dueAt returns when a VM process whose end was begun wants to be looked at.
func (t *Tie) dueAt(v *VM) host.Boottime {
	if t.dependsOnStopHandler(v) && !t.StopHandler.Connected {
		return min(v.Due, t.StopHandler.AwaitUntil)
	}
	return v.Due
}

// PodShutdownRequest returns what the pod is asked for; nil: nothing.
func (t *Tie) PodShutdownRequest(now host.Boottime) (stop *ShutdownRequest) {
	for _, v := range t.VMs {
		if v.Stage != StageShutdown || v.Domain != nil && !v.PodAsked || !t.awaitsStopHandler(now) {
			continue
		}
		why, _, _ := strings.Cut(v.Why, ": ") // the proof can name cgroups of the node
		if stop == nil || v.Due < stop.Due {
			stop = &ShutdownRequest{Why: why, Due: v.Due}
		}
	}
	return stop
}
