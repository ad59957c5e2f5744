package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// shutdownTimeout is how long libvirt may take to pass a request on to a guest.
const shutdownTimeout = 10 * time.Second

// execute does what a step wants done.
func (s *Supervisor) execute(t *managedTie, a tie.Action) {
	switch a := a.(type) {
	case tie.Report:
		s.report(t, a)
	case tie.ShutdownByLibvirt:
		s.shutdownByLibvirt(t, a)
	case tie.ShutdownByPod:
		s.countAction(a, nil) // it is shown what it is asked for
	case tie.Terminate:
		s.sendSignal(t, a, a.VM, host.Handle.Terminate)
	case tie.Kill:
		s.killVM(t, a)
	case tie.ConfirmStop:
		s.confirmStop(t)
	case tie.RequestScan:
		s.enqueue(func(ctx context.Context) {
			if s.isCurrent(t) {
				s.requestScan(ctx, t, t.PendingScan())
			}
		})
	case tie.CheckMemlock:
		if s.Guard != nil {
			id := t.Launcher.Container.ID
			s.enqueue(func(context.Context) { s.Guard.EnqueueVM(id) }) // once it is shown
		}
	}
}

func (s *Supervisor) report(t *managedTie, a tie.Report) {
	c := t.Launcher.Container
	if a.PID != 0 {
		c.PID = a.PID
	}
	log := s.logger(&t.Tie).With("pid", c.PID, "reason", a.Reason)
	if a.Type == agentapi.Warning {
		log.Warn(a.Message)
	} else {
		log.Info(a.Message)
	}
	s.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: a.Type, Reason: a.Reason, Message: a.Message, Pod: t.Launcher.Pod, Container: c,
	})
}

// sendSignal sends a signal through a handle that was compared with the process when it
// was opened: it reaches that process or none.
func (s *Supervisor) sendSignal(t *managedTie, a tie.Action, v tie.VM, send func(host.Handle) error) {
	h, err := s.openHandle(t, v.Process)
	if err == nil {
		err = send(h)
	}
	if errors.Is(err, host.ErrGone) {
		if h == nil {
			s.enqueue(func(ctx context.Context) { s.handleEnd(ctx, t, v.Process) })
		}
		return // otherwise its end is being told
	}
	s.countAction(a, err)
	if err != nil {
		s.enqueue(func(context.Context) { s.actionFailed(t, a, err) })
	}
}

func (s *Supervisor) actionFailed(t *managedTie, a tie.Action, err error) {
	if s.isCurrent(t) {
		s.step(t, tie.ActionFailed{Action: a, Err: err})
	}
}

// killVM kills the VM process, and first what else lives in the cgroup that is the VM's
// own: helpers of the emulator. That has to be where it is now, for cgroups have names
// that come again.
func (s *Supervisor) killVM(t *managedTie, a tie.Kill) {
	if own := a.VM.OwnCgroup; own != "" && t.handles[a.VM.Process.ID()] != nil {
		now, err := s.Processes.Identify(a.VM.PID)
		if err == nil && now.Same(a.VM.Process) && host.InCgroup(now.Cgroup, own) {
			err = s.Processes.KillCgroup(own)
		}
		if err != nil && !errors.Is(err, host.ErrGone) {
			s.logger(&t.Tie).Warn("the cgroup of a VM could not be killed", "cgroup", own, "error", err)
		}
	}
	s.sendSignal(t, a, a.VM, host.Handle.Kill)
}

// shutdownByLibvirt asks libvirt to ask the guest, which may take its time.
func (s *Supervisor) shutdownByLibvirt(t *managedTie, a tie.ShutdownByLibvirt) {
	s.enqueue(func(ctx context.Context) {
		if !s.isCurrent(t) || t.VM(a.VM.Process) == nil {
			return // it has ended meanwhile
		}
		s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
			ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
			defer cancel()
			err := s.requestGuestShutdown(ctx, a.VM)
			if errors.Is(err, host.ErrGone) {
				return nil // its end is being told
			}
			s.countAction(a, err)
			if err == nil {
				return nil
			}
			return func(context.Context) { s.actionFailed(t, a, err) }
		})
	})
}

// requestGuestShutdown asks for the shutdown of a domain, which libvirt knows by its UUID alone. If
// another process runs it now, that is not the one that is meant.
func (s *Supervisor) requestGuestShutdown(ctx context.Context, v tie.VM) error {
	if s.Domains == nil {
		return errNoDomains
	}
	running, err := s.Domains.Running()
	noted := slices.ContainsFunc(running, func(d tie.Domain) bool { return d.UUID == v.Domain.UUID && d.PID == v.PID })
	if !noted {
		return errors.Join(errNotRunning, err)
	}
	now, err := s.Processes.Identify(v.PID)
	if err == nil && !now.Same(v.Process) {
		err = fmt.Errorf("process %d is another one: %w", v.PID, host.ErrGone)
	}
	if err != nil {
		return err
	}
	return s.Domains.Shutdown(ctx, *v.Domain)
}

func (s *Supervisor) confirmStop(t *managedTie) {
	if s.PodDirs == nil {
		return
	}
	err := s.PodDirs.ConfirmStop(t.Launcher.Pod.UID)
	s.countAction(tie.ConfirmStop{}, err)
	if err != nil {
		s.logger(&t.Tie).Warn("the pod cannot be told that its VM is gone", "error", err)
	}
}

func (s *Supervisor) countAction(a tie.Action, err error) {
	if s.Observer == nil {
		return
	}
	switch a.(type) {
	case tie.ShutdownByLibvirt, tie.ShutdownByPod:
		s.Observer.ActionDone(ActionShutdown, err)
	case tie.Terminate:
		s.Observer.ActionDone(ActionTerminate, err)
	case tie.Kill:
		s.Observer.ActionDone(ActionKill, err)
	case tie.ConfirmStop:
		s.Observer.ActionDone(ActionConfirmStop, err)
	}
}

// clearStopRequest takes back what an earlier container of the pod has asked for, and
// returns when its last heartbeat was.
func (s *Supervisor) clearStopRequest(podUID string) (heartbeat time.Time) {
	if s.PodDirs == nil {
		return time.Time{}
	}
	signs, err := s.PodDirs.Touched(podUID)
	if err == nil && signs.StopRequested {
		err = s.PodDirs.ConfirmStop(podUID)
	}
	if err != nil {
		s.Logger.Debug("signs of a pod cannot be voided", "uid", podUID, "error", err)
	}
	return signs.Heartbeat
}

// readAllPodDirs reads what the pods say.
func (s *Supervisor) readAllPodDirs() {
	for _, t := range s.ties {
		s.readPodDir(t)
	}
}

// readPodDir reads what the pod says through its directory. One that was created
// while nobody was here has none.
func (s *Supervisor) readPodDir(t *managedTie) {
	if s.PodDirs == nil || !s.isCurrent(t) {
		return
	}
	signs, err := s.PodDirs.Touched(t.Launcher.Pod.UID)
	if err != nil {
		s.logger(&t.Tie).Debug("the pod's directory cannot be read", "error", err)
		return
	}
	if !signs.Heartbeat.Equal(t.lastHeartbeat) {
		t.lastHeartbeat = signs.Heartbeat
		s.step(t, tie.HeartbeatSeen{})
	}
	if signs.StopRequested && !t.StopRequested && s.isCurrent(t) {
		s.step(t, tie.StopRequested{})
	}
}
