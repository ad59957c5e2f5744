package supervisor

import (
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// hasPodDir reports whether the pod has a directory, and thus can give heartbeats. A pod created in
// the agent's absence, or in observe mode, has none.
func (s *Supervisor) hasPodDir(podUID string) bool {
	if s.PodDirs == nil {
		return false
	}
	_, err := s.PodDirs.Touched(podUID)
	return err == nil
}

// clearStopRequest clears the stop request of an earlier container of the pod. It returns the time
// of the pod's last heartbeat.
func (s *Supervisor) clearStopRequest(podUID string) (heartbeat time.Time) {
	if s.PodDirs == nil {
		return time.Time{}
	}
	touched, err := s.PodDirs.Touched(podUID)
	if err == nil && touched.StopRequested {
		err = s.PodDirs.ConfirmStop(podUID)
	}
	if err != nil {
		s.Logger.Debug("the agent cannot clear a pod's stop request", "uid", podUID, "error", err)
	}
	return touched.Heartbeat
}

func (s *Supervisor) readAllPodDirs() {
	for _, t := range s.ties {
		s.readPodDir(t)
	}
}

// readPodDir reads heartbeat and stop request of a pod, and steps its tie. A heartbeat of the first
// read excuses the launcher, but its time is unknown.
func (s *Supervisor) readPodDir(t *managedTie) {
	if s.PodDirs == nil || !s.isCurrent(t) {
		return
	}
	touched, err := s.PodDirs.Touched(t.Launcher.Pod.UID)
	if err != nil {
		s.logger(t).Debug("the agent cannot read the pod's directory", "error", err)
		return
	}
	if !touched.Heartbeat.Equal(t.lastHeartbeat) {
		t.lastHeartbeat = touched.Heartbeat
		if t.podDirRead {
			t.heartbeatAt = s.Clock.Now()
		}
		s.step(t, tie.HeartbeatSeen{})
	}
	t.podDirRead = true
	if touched.StopRequested && !t.StopRequested && s.isCurrent(t) {
		s.step(t, tie.StopRequested{})
	}
}
