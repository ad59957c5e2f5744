package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// reconnectWait is the time for a disconnected stop handler to come back.
	reconnectWait = 2 * time.Second

	// restartReconnectWait is this time after a restart of the agent. Clients wait up to ten
	// seconds between two attempts.
	restartReconnectWait = 15 * time.Second
)

// SetStopHandler notifies that a pod has a stop handler, or has none any more. It does not block.
func (s *Supervisor) SetStopHandler(podUID string, connected bool) {
	s.enqueue(func(context.Context) {
		if connected {
			s.stopHandlers[podUID] = true
		} else {
			delete(s.stopHandlers, podUID)
		}
		s.updateStopHandlers(podUID, reconnectWait)
	})
}

// updateStopHandlers steps the ties of a pod after its stop handler has come or left. The fence
// serves no sockets, and an earlier request of the agent keeps its time.
func (s *Supervisor) updateStopHandlers(podUID string, wait time.Duration) {
	if s.Terms.ProofOnly {
		return
	}
	for _, t := range s.ties {
		if t.Launcher.Pod.UID == podUID {
			s.updateStopHandler(t, wait)
		}
	}
}

func (s *Supervisor) updateStopHandler(t *managedTie, wait time.Duration) {
	connected, only := s.stopHandlers[t.Launcher.Pod.UID], s.onlyLauncherOfPod(t)
	switch {
	case !only && t.StopHandler != (tie.StopHandler{}):
		s.step(t, tie.StopHandlerDisconnected{})
	case only && connected && !t.StopHandler.Connected:
		s.step(t, tie.StopHandlerConnected{})
	case only && !connected && t.StopHandler.Connected:
		s.step(t, tie.StopHandlerDisconnected{Wait: wait})
	}
}

// onlyLauncherOfPod reports whether no other launcher of the pod lives. A request to a stop handler
// names no VM, and the handler could shut down the VM of the other launcher.
func (s *Supervisor) onlyLauncherOfPod(t *managedTie) bool {
	for _, other := range s.ties {
		if other != t && other.Launcher.Pod.UID == t.Launcher.Pod.UID && other.LauncherGone == "" {
			return false
		}
	}
	return true
}
