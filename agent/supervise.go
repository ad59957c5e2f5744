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
	"github.com/mooring-vm/mooring/lifecycle"
)

// supervision is what ties VM processes to launchers, and what it works with.
type supervision struct {
	*lifecycle.Supervisor
	tracker   io.Closer
	view      *bpf.View // that of a fence
	processes *lifecycle.LinuxProcesses
	store     *lifecycle.FileStore

	known      sync.Once
	reconciled chan struct{} // closed when the runtime has said which launchers run
}

// makeSupervisor makes the supervisor. Where the kernel lets no processes be tracked,
// the agent goes on without: memory locks and cgroup settings need none of it.
func (a *Agent) makeSupervisor(ctx context.Context) (err error) {
	t, err := openTracker(ctx, a.config, a.policy, a.logger)
	if errors.Is(err, bpf.ErrUnsupported) || deniesPins(err) {
		a.trackerErr = err
		a.logger.Error("VM processes are not tied to their pods", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // the kernel's types, which loading has read: 10 MB
	s := &supervision{tracker: t, reconciled: make(chan struct{})}
	a.supervision, a.tracker = s, t
	if s.processes, err = lifecycle.NewLinuxProcesses(a.kernel); err != nil {
		return err
	}
	if s.store, err = lifecycle.OpenFileStore(a.config.Root, a.config.Proc); err != nil {
		return err
	}
	config := lifecycle.SupervisorConfig{
		Registry:  a.registry,
		Tracker:   t,
		Processes: s.processes,
		Signs:     a.podDirs,
		Store:     s.store,
		Recorder:  a.recorder(),
		Guard:     a.guard,
		Observer:  a.metrics,
		Clock:     lifecycle.LinuxClock{},
		Logger:    a.logger,
		Terms:     terms(a.policy),
		Alive:     a.alive.worked,
		Back:      a.alive.back,
	}
	if d := nodeDomains(a.policy); d != nil {
		config.Domains = d
	}
	s.Supervisor = lifecycle.NewSupervisor(config)
	return nil
}

// deniesPins reports whether the node does not let the agent have its pins: the bpf file
// system is mounted read-only, or an AppArmor profile or SELinux keeps the agent out.
func deniesPins(err error) bool {
	return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EROFS)
}

// terms are those that the policy sets for every launcher.
func terms(p *policy.Policy) lifecycle.Terms {
	return lifecycle.Terms{
		Enforce:        p.Mode == policy.Enforce,
		GracePeriod:    p.Lifecycle.GracePeriod,
		TermPeriod:     p.Lifecycle.TermPeriod,
		StopUnattended: p.Lifecycle.Unattended == policy.ReactionStop,
		StopHung:       p.Lifecycle.Hung == policy.ReactionStop,
	}
}

// startSupervisor starts what ties VM processes to launchers. It has taken over what
// an earlier agent knew before the runtime is asked.
func (a *Agent) startSupervisor(s *stage) {
	if a.supervision == nil {
		return
	}
	v := a.supervision
	if err := v.Restore(); err != nil {
		a.logger.Warn("not everything is known of the launchers that ran before", "error", err)
	}
	s.do(v.Run)
	s.run(v.processes.Wait)
	s.do(a.forgetLeftovers)
	s.run(func(ctx context.Context) error { return a.tracker.tell(ctx, v.Supervisor) })
	s.run(func(ctx context.Context) error { return a.podDirs.Watch(ctx, v.Signed) })
}

// close gives back what the supervision holds open; what is pinned stays.
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
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("end the supervision: %w", err)
	}
	return nil
}
