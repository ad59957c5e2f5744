package tie

import (
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// StopHandler is a client of the pod's socket. It shuts the guest down on request.
type StopHandler struct {
	Connected  bool          `json:"here,omitempty"`
	AwaitUntil host.Boottime `json:"until,omitempty"` // after a disconnection
}

// ShutdownRequest asks a pod to shut down its guest.
type ShutdownRequest struct {
	Why string        // without details of the node
	Due host.Boottime // when the agent continues without the pod
}

func (StopHandlerConnected) apply(t *Tie, _ *step) {
	t.StopHandler = StopHandler{Connected: true}
}

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

// expectsStopHandler reports whether a stop handler is connected or may still come back.
func (t *Tie) expectsStopHandler(now host.Boottime) bool {
	return t.StopHandler.Connected || now < t.StopHandler.AwaitUntil
}

// canAskPod reports whether the pod gets a request to shut down this VM process. A request names no
// VM process and means all of the pod. Without a draining tie, it therefore needs a single VM
// process. A VM process started after the begin of the stop gets SIGTERM: otherwise a pod could
// delay its end for ever.
func (t *Tie) canAskPod(v *VM, now host.Boottime) bool {
	draining := t.Phase == agentapi.PhaseDraining
	afterStop := draining && v.Since > t.Since
	afterEnd := t.LauncherGone != "" && v.Since > t.LauncherGoneAt
	return (draining || len(t.VMs) == 1) && !afterStop && !afterEnd && !t.Terms.ProofOnly &&
		t.expectsStopHandler(now)
}

// dependsOnStopHandler reports whether only a stop handler can shut down the guest.
func (t *Tie) dependsOnStopHandler(v *VM) bool {
	switch {
	case v.Stage != StageShutdown:
		return false
	case v.Domain != nil:
		return v.PodAsked
	}
	return t.LauncherGone != "" || !t.StopRequested
}

// shutdownByPod gives the pod the grace period to shut down its guest.
func (t *Tie) shutdownByPod(v *VM, s *step) {
	v.setStage(StageShutdown, t.gracePeriod(s.now), s)
	v.PodAsked = true
	s.note(agentapi.ReasonVMShutdown, v.PID,
		"the agent asks the pod to shut down the guest of %s: %s", v.Describe(), v.Why)
	s.act(ShutdownByPod{*v})
}

// continueWithoutPod continues a stop after the stop handler has left. libvirt gets the rest of the
// grace period. A VM of the pod gets SIGTERM.
func (t *Tie) continueWithoutPod(v *VM, s *step) {
	if v.Domain != nil {
		v.PodAsked = false
		t.shutdownByLibvirt(v, s)
		return
	}
	if v.PodAsked {
		s.warn(agentapi.ReasonVMShutdown, v.PID,
			"the pod has no stop handler any more to shut down the guest of %s", v.Describe())
	}
	t.nextStage(v, s)
}

// dueAt returns the time of the next step for a VM process during its stop.
func (t *Tie) dueAt(v *VM) host.Boottime {
	if t.dependsOnStopHandler(v) && !t.StopHandler.Connected {
		return min(v.Due, t.StopHandler.AwaitUntil)
	}
	if v.AskAgain != 0 {
		return min(v.Due, v.AskAgain)
	}
	return v.Due
}

// PodShutdownRequest returns the present request to the pod's stop handler, nil if there is none.
// Of several VM processes the earliest due time counts.
func (t *Tie) PodShutdownRequest(now host.Boottime) *ShutdownRequest {
	if !t.expectsStopHandler(now) {
		return nil
	}
	var request *ShutdownRequest
	for _, v := range t.VMs {
		byPod := v.Stage == StageShutdown && (v.Domain == nil || v.PodAsked)
		if byPod && (request == nil || v.Due < request.Due) {
			why, _, _ := strings.Cut(v.Why, ": ") // the proof can name cgroups of the node
			request = &ShutdownRequest{Why: why, Due: v.Due}
		}
	}
	return request
}
