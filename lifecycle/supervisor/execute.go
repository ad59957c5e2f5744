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

// shutdownTimeout bounds a shutdown request to libvirt.
const shutdownTimeout = 10 * time.Second

var (
	errNoDomains = errors.New("the policy names no libvirt of the node")
	errNoRecord  = errors.New("libvirt's record of the domain is unreadable")
)

// execute executes an action of a step.
func (s *Supervisor) execute(t *managedTie, a tie.Action) {
	switch a := a.(type) {
	case tie.Report:
		s.report(t, a)
	case tie.ShutdownByLibvirt:
		s.shutdownByLibvirt(t, a)
	case tie.ShutdownByPod:
		s.countAction(a, nil) // publish shows the request to the pod
	case tie.Terminate:
		s.sendSignal(t, a, a.VM, host.Handle.Terminate)
	case tie.Kill:
		s.killVM(t, a)
	case tie.ConfirmStop:
		s.confirmStop(t)
	case tie.RequestScan:
		s.enqueue(func(ctx context.Context) {
			if s.isCurrent(t) {
				s.requestScan(ctx, t)
			}
		})
	case tie.ExplainEnd:
		s.explainEnd(t, a.End)
	case tie.CheckMemlock:
		if s.Guard != nil {
			id := t.Launcher.Container.ID
			s.enqueue(func(context.Context) { s.Guard.EnqueueVM(id) }) // after publish
		}
	}
}

// report writes a log message and an Event.
func (s *Supervisor) report(t *managedTie, a tie.Report) {
	c := t.Launcher.Container
	if a.PID != 0 {
		c.PID = a.PID
	}
	log := s.logger(t).With("pid", c.PID, "reason", a.Reason)
	if a.Type == agentapi.Warning {
		log.Warn(a.Message)
	} else {
		log.Info(a.Message)
	}
	s.Recorder.Record(agentapi.Event{
		Time: time.Now(), Type: a.Type, Reason: a.Reason, Message: a.Message,
		Pod: t.Launcher.Pod, Container: c,
	})
}

// sendSignal sends a signal through the process's handle, so it reaches this process or none.
func (s *Supervisor) sendSignal(
	t *managedTie, a tie.Action, v tie.VM, send func(host.Handle) error,
) {
	h, err := s.openHandle(t, v.Process)
	if err == nil {
		err = send(h)
	}
	if errors.Is(err, host.ErrGone) {
		if h == nil {
			s.enqueue(func(ctx context.Context) { s.handleEnd(ctx, t, v.Process, "") })
		}
		return // the handle notifies of the end
	}
	s.countAction(a, err)
	if err != nil {
		s.enqueue(func(context.Context) { s.actionFailed(t, a, err) })
	}
}

func (s *Supervisor) actionFailed(t *managedTie, a tie.Action, err error) {
	if s.isCurrent(t) {
		final := errors.Is(err, ErrNoDomain) || errors.Is(err, errNoDomains)
		s.step(t, tie.ActionFailed{Action: a, Err: err, Final: final})
	}
}

// killVM kills the helpers of the emulator in the VM's own cgroup, and then the VM process. It
// kills the cgroup only if the VM process is in it now, because names of cgroups return.
func (s *Supervisor) killVM(t *managedTie, a tie.Kill) {
	if own := a.VM.OwnCgroup; own != "" {
		now, err := s.Processes.Identify(a.VM.PID)
		if err == nil && now.Same(a.VM.Process) && host.InCgroup(now.Cgroup, own) {
			err = s.Processes.KillCgroup(own)
		}
		if err != nil && !errors.Is(err, host.ErrGone) {
			s.logger(t).Warn("the agent cannot kill the cgroup of a VM", "cgroup", own,
				"error", err)
		}
	}
	s.sendSignal(t, a, a.VM, host.Handle.Kill)
}

// shutdownByLibvirt sends a shutdown request to libvirt in the background.
func (s *Supervisor) shutdownByLibvirt(t *managedTie, a tie.ShutdownByLibvirt) {
	s.enqueue(func(ctx context.Context) {
		if t.VM(a.VM.Process) == nil {
			return // the VM process has ended
		}
		s.inBackground(ctx, func(ctx context.Context) func(context.Context) {
			ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
			defer cancel()
			err := s.requestGuestShutdown(ctx, a.VM)
			if errors.Is(err, host.ErrGone) {
				return nil // the handle notifies of the end
			}
			s.countAction(a, err)
			if err == nil {
				return nil
			}
			return func(context.Context) { s.actionFailed(t, a, err) }
		})
	})
}

// requestGuestShutdown sends the request for a domain. libvirt identifies a domain by UUID only, so
// the domain's record must still name this process.
func (s *Supervisor) requestGuestShutdown(ctx context.Context, v tie.VM) error {
	if s.Domains == nil {
		return errNoDomains
	}
	running, unreadable, err := s.Domains.Running()
	recorded := slices.ContainsFunc(running, func(d tie.Domain) bool {
		return d.UUID == v.Domain.UUID && d.PID == v.PID
	})
	switch named := func(d tie.Domain) bool { return d.Name == v.Domain.Name }; {
	case recorded:
	case err != nil || slices.ContainsFunc(unreadable, named):
		return errors.Join(errNoRecord, err)
	default:
		return fmt.Errorf("%w: there is no record of it", ErrNoDomain)
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
		s.logger(t).Warn("the agent cannot confirm the stop to the pod", "error", err)
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
