package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// supervision is a supervisor with its resources. The supervisor ties VM processes to
// launchers.
type supervision struct {
	*supervisor.Supervisor
	tracker   io.Closer
	view      *bpf.View // of a fence; nil in an agent
	processes *host.LinuxProcesses
	domains   *domains // nil in a fence, and without a libvirt of the node
	store     *supervisor.FileStore
	former    *supervisor.FileStore // nil in a fence

	reconcileOnce sync.Once
	reconciled    chan struct{} // closed once the runtime has listed the running launchers
}

// makeSupervisor makes the supervisor. If the kernel cannot track processes, the agent
// continues without one: memory-lock limits and cgroup settings do not need it.
func (a *Agent) makeSupervisor(ctx context.Context) (err error) {
	t, err := openTracker(ctx, a.config, a.policy(), a.logger, a.reportCrowd)
	if errors.Is(err, bpf.ErrUnsupported) || deniesPins(err) {
		a.trackerErr = err
		a.logger.Error("VM processes are not tied to their pods", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // loading has read the kernel's types: 10 MB
	s := &supervision{tracker: t, reconciled: make(chan struct{})}
	a.supervision, a.tracker = s, t
	if s.processes, err = host.NewLinuxProcesses(a.kernel); err != nil {
		return err
	}
	if s.store, err = supervisor.OpenFileStore(a.config.Root, a.config.Proc); err != nil {
		return err
	}
	if s.former, err = supervisor.OpenFormerStore(a.config.Root, a.config.Proc); err != nil {
		return err
	}
	config := supervisor.Config{
		Registry:     a.registry,
		Tracker:      t,
		Processes:    s.processes,
		PodDirs:      a.podDirs,
		Store:        s.store,
		Former:       s.former,
		Recorder:     a.recorders(),
		Guard:        a.guard,
		Observer:     a.metrics,
		Clock:        host.LinuxClock{},
		Logger:       a.logger,
		Terms:        terms(a.policy()),
		ReportAlive:  a.presence.confirm,
		AfterAbsence: a.presence.resume,

		PublishOwners: a.gateFile().write,
		RequiresOwner: func(domain string) bool {
			return a.policy().Lifecycle.RequiresOwner(domain)
		},
	}
	if s.domains = nodeDomains(a.policy(), a.logger); s.domains != nil {
		config.Domains = s.domains
	}
	s.Supervisor = supervisor.New(config)
	return nil
}

// deniesPins reports whether the node denies the agent its pins: the bpf file system is
// mounted read-only, or an AppArmor profile or SELinux forbids the access.
func deniesPins(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}

// terms converts the part of the policy that holds for every launcher.
func terms(p *policy.Policy) tie.Terms {
	return tie.Terms{
		Enforce:        p.Mode == policy.Enforce,
		GracePeriod:    p.Lifecycle.GracePeriod,
		TermPeriod:     p.Lifecycle.TermPeriod,
		StopUnattended: p.Lifecycle.Unattended == policy.ReactionStop,
		StopHung:       p.Lifecycle.Hung == policy.ReactionStop,
	}
}

// startSupervisor restores the state of an earlier agent and starts the supervisor. It must run
// before the agent connects to the runtime.
func (a *Agent) startSupervisor(s *stage) {
	if a.supervision == nil {
		return
	}
	v := a.supervision
	if err := v.Restore(); err != nil {
		a.logger.Warn("some launchers could not be restored", "error", err)
	}
	s.do(v.Run)
	s.run(v.processes.Wait)
	if v.domains != nil {
		s.do(v.domains.followEnds)
	}
	s.do(a.releaseLeftovers)
	s.run(func(ctx context.Context) error { return a.tracker.forwardEvents(ctx, v.Supervisor) })
	s.run(func(ctx context.Context) error { return a.podDirs.Watch(ctx, v.PodTouched) })
}

// close closes the resources. Pins stay.
func (v *supervision) close() error {
	var errs []error
	if v.tracker != nil {
		errs = append(errs, v.tracker.Close())
	}
	if v.processes != nil {
		errs = append(errs, v.processes.Close())
	}
	if v.store != nil {
		errs = append(errs, v.store.Close())
	}
	if v.former != nil {
		errs = append(errs, v.former.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end the supervision: %w", err)
	}
	return nil
}
