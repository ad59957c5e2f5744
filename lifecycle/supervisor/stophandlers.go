package supervisor

import (
	"context"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// reconnectWait is how long whoever has left the pod's socket is waited for.
	reconnectWait = 2 * time.Second

	// restartReconnectWait is that after an absence of the agent: clients pause for up to ten
	// seconds between two attempts to connect.
	restartReconnectWait = 15 * time.Second
)

// SetStopHandler tells whether somebody in a pod takes requests to end its VM gracefully. It does
// not block.
func (s *Supervisor) SetStopHandler(podUID string, takes bool) {
	s.enqueue(func(context.Context) {
		if takes {
			s.stopHandlers[podUID] = true
		} else {
			delete(s.stopHandlers, podUID)
		}
		s.updateStopHandlers(podUID, reconnectWait)
	})
}

// updateStopHandlers tells the ties of a pod whether there is somebody to ask. The fence has
// no sockets: what the agent has asked for before has its time.
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
	takes, alone := s.stopHandlers[t.Launcher.Pod.UID], s.onlyLauncherOfPod(t)
	switch {
	case !alone && t.StopHandler != (tie.StopHandler{}):
		s.step(t, tie.StopHandlerDisconnected{})
	case alone && takes && !t.StopHandler.Connected:
		s.step(t, tie.StopHandlerConnected{})
	case alone && !takes && t.StopHandler.Connected:
		s.step(t, tie.StopHandlerDisconnected{Wait: wait})
	}
}

// onlyLauncherOfPod reports whether no other launcher of the pod lives: a request names no VM, and
// would be taken for one about that launcher's.
func (s *Supervisor) onlyLauncherOfPod(t *managedTie) bool {
	for _, other := range s.ties {
		if other != t && other.Launcher.Pod.UID == t.Launcher.Pod.UID && other.LauncherGone == "" {
			return false
		}
	}
	return true
}
