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

// act does what a step wants done.
func (s *Supervisor) act(t *tied, a tie.Action) {
	switch a := a.(type) {
	case tie.Report:
		s.tell(t, a)
	case tie.Shutdown:
		s.shutdown(t, a)
	case tie.RequestShutdown:
		s.acted(a, nil) // it is shown what it is asked for
	case tie.Terminate:
		s.signal(t, a, a.VM, host.Handle.Terminate)
	case tie.Kill:
		s.kill(t, a)
	case tie.ConfirmStop:
		s.confirmStop(t)
	case tie.RequestScan:
		s.put(func(ctx context.Context) {
			if s.current(t) {
				s.want(ctx, t, t.PendingScan())
			}
		})
	case tie.CheckMemlock:
		if s.Guard != nil {
			id := t.Launcher.Container.ID
			s.put(func(context.Context) { s.Guard.EnqueueVM(id) }) // once it is shown
		}
	}
}

func (s *Supervisor) tell(t *tied, a tie.Report) {
	c := t.Launcher.Container
	if a.PID != 0 {
		c.PID = a.PID
	}
	log := s.log(&t.Tie).With("pid", c.PID, "reason", a.Reason)
	if a.Type == agentapi.Warning {
		log.Warn(a.Message)
	} else {
		log.Info(a.Message)
	}
	s.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: a.Type, Reason: a.Reason, Message: a.Message, Pod: t.Launcher.Pod, Container: c,
	})
}

// signal sends a signal through a handle that was compared with the process when it
// was opened: it reaches that process or none.
func (s *Supervisor) signal(t *tied, a tie.Action, v tie.VM, send func(host.Handle) error) {
	h, err := s.hold(t, v.Process)
	if err == nil {
		err = send(h)
	}
	if errors.Is(err, host.ErrGone) {
		if h == nil {
			s.put(func(ctx context.Context) { s.ended(ctx, t, v.Process) })
		}
		return // otherwise its end is being told
	}
	s.acted(a, err)
	if err != nil {
		s.put(func(context.Context) { s.failed(t, a, err) })
	}
}

func (s *Supervisor) failed(t *tied, a tie.Action, err error) {
	if s.current(t) {
		s.step(t, tie.ActionFailed{Action: a, Err: err})
	}
}

// kill kills the VM process, and first what else lives in the cgroup that is the VM's
// own: helpers of the emulator. That has to be where it is now, for cgroups have names
// that come again.
func (s *Supervisor) kill(t *tied, a tie.Kill) {
	if own := a.VM.OwnCgroup; own != "" && t.handles[a.VM.Process.ID()] != nil {
		now, err := s.Processes.Identify(a.VM.PID)
		if err == nil && now.Same(a.VM.Process) && host.InCgroup(now.Cgroup, own) {
			err = s.Processes.KillCgroup(own)
		}
		if err != nil && !errors.Is(err, host.ErrGone) {
			s.log(&t.Tie).Warn("the cgroup of a VM could not be killed", "cgroup", own, "error", err)
		}
	}
	s.signal(t, a, a.VM, host.Handle.Kill)
}

// shutdown asks libvirt to ask the guest, which may take its time.
func (s *Supervisor) shutdown(t *tied, a tie.Shutdown) {
	s.put(func(ctx context.Context) {
		if !s.current(t) || t.VM(a.VM.Process) == nil {
			return // it has ended meanwhile
		}
		s.aside(ctx, func(ctx context.Context) func(context.Context) {
			ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
			defer cancel()
			err := s.askGuest(ctx, a.VM)
			if errors.Is(err, host.ErrGone) {
				return nil // its end is being told
			}
			s.acted(a, err)
			if err == nil {
				return nil
			}
			return func(context.Context) { s.failed(t, a, err) }
		})
	})
}

// askGuest asks for the shutdown of a domain, which libvirt knows by its UUID alone. If
// another process runs it now, that is not the one that is meant.
func (s *Supervisor) askGuest(ctx context.Context, v tie.VM) error {
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

func (s *Supervisor) confirmStop(t *tied) {
	if s.PodDirs == nil {
		return
	}
	err := s.PodDirs.ConfirmStop(t.Launcher.Pod.UID)
	s.acted(tie.ConfirmStop{}, err)
	if err != nil {
		s.log(&t.Tie).Warn("the pod cannot be told that its VM is gone", "error", err)
	}
}

func (s *Supervisor) acted(a tie.Action, err error) {
	if s.Observer == nil {
		return
	}
	switch a.(type) {
	case tie.Shutdown, tie.RequestShutdown:
		s.Observer.ActionDone(ActionShutdown, err)
	case tie.Terminate:
		s.Observer.ActionDone(ActionTerminate, err)
	case tie.Kill:
		s.Observer.ActionDone(ActionKill, err)
	case tie.ConfirmStop:
		s.Observer.ActionDone(ActionConfirmStop, err)
	}
}

// voidSigns takes back what an earlier container of the pod has asked for, and
// returns when its last heartbeat was.
func (s *Supervisor) voidSigns(podUID string) (heartbeat time.Time) {
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

// readAllSigns reads what the pods say.
func (s *Supervisor) readAllSigns() {
	for _, t := range s.ties {
		s.readSigns(t)
	}
}

// readSigns reads what the pod says through its directory. One that was created
// while nobody was here has none.
func (s *Supervisor) readSigns(t *tied) {
	if s.PodDirs == nil || !s.current(t) {
		return
	}
	signs, err := s.PodDirs.Touched(t.Launcher.Pod.UID)
	if err != nil {
		s.log(&t.Tie).Debug("the pod's directory cannot be read", "error", err)
		return
	}
	if !signs.Heartbeat.Equal(t.heartbeat) {
		t.heartbeat = signs.Heartbeat
		s.step(t, tie.HeartbeatSeen{})
	}
	if signs.StopRequested && !t.StopRequested && s.current(t) {
		s.step(t, tie.StopRequested{})
	}
}
