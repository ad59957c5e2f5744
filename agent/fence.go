package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle"
)

const (
	// fenceLooks is how often the fence looks for a sign of life of the agent.
	fenceLooks = time.Second

	// maxPause is the longest time between two attempts of a fence that cannot act.
	maxPause = time.Minute
)

// fenceCommand runs the fence.
func fenceCommand(config *Config, build buildinfo.Info, w io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Stop VMs whose launcher is gone, while the agent is away",
		Long: "Runs beside the agent, as a unit of its own. While the agent has given no sign of life\n" +
			"for longer than the policy's lifecycle.fenceAfter, it takes over what the agent has left:\n" +
			"VM processes whose launcher is proven gone are stopped. Those of a launcher that lives\n" +
			"are not touched, whatever else is known of it. It needs no container runtime and no\n" +
			"Kubernetes. As soon as the agent is back, it steps aside.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFence(cmd.Context(), *config, build, w) },
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Policy, "policy", config.Policy, "node policy file; read once, at the start")
	config.addLogFlags(flags)
	config.addTrackerFlag(flags)
	return cmd
}

func runFence(ctx context.Context, config Config, build buildinfo.Info, w io.Writer) error {
	logger, closeLog, err := openLog(w, config.LogLevel, config.LogFormat)
	if err != nil {
		return err
	}
	defer closeLog()
	collectEarly()
	p, err := policy.Load(config.Policy)
	if err != nil {
		return fmt.Errorf("start the fence: %w", err)
	}
	f := newFence(config, p, logger, lifecycle.LinuxClock{})
	logger.Info("the fence starts", "version", build.String(), "policy", config.Policy, "mode", p.Mode, "after", p.Lifecycle.FenceAfter)
	return f.run(ctx)
}

// fence does for an agent that is away what cannot wait.
type fence struct {
	config  Config
	policy  *policy.Policy
	logger  *slog.Logger
	clock   lifecycle.Clock
	absence *absence
	spell   spell
	act     func(context.Context) error // takes over until the agent is back
}

// spell is one absence of the agent, and how the fence fares in it.
type spell struct {
	told  string // last
	retry lifecycle.Boottime
	pause time.Duration
}

func newFence(config Config, p *policy.Policy, logger *slog.Logger, clock lifecycle.Clock) *fence {
	f := &fence{config: config, policy: p, logger: logger, clock: clock, absence: newAbsence(config.Root, clock)}
	f.act = f.takeOver
	return f
}

// run looks for the agent until ctx is done, and acts while it is away.
func (f *fence) run(ctx context.Context) error {
	looks := time.NewTicker(fenceLooks)
	defer looks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-looks.C:
		}
		f.look(ctx)
	}
}

// look acts if the agent is away for too long. Where it cannot, it tries again after
// a pause that doubles.
func (f *fence) look(ctx context.Context) {
	after := f.policy.Lifecycle.FenceAfter
	away, coming := f.absence.look()
	switch {
	case after <= 0 || away <= after:
		f.spell = spell{}
		return
	case coming:
		return
	case f.clock.Now() < f.spell.retry:
		return
	case f.absence.never() && !lifecycle.HasTies(f.config.Root):
		f.tell(slog.LevelInfo, "no agent has looked after VM processes here, and nothing is left of one: there is nothing to do")
		return
	}
	if f.spell.pause == 0 {
		f.tell(slog.LevelWarn, "the agent is away; the fence takes over", "for", away.Round(time.Second))
	}
	if err := f.act(ctx); err != nil {
		f.tell(slog.LevelError, "the fence cannot act, and tries again", "error", err)
		f.spell.pause = min(max(2*f.spell.pause, fenceLooks), maxPause)
		f.spell.retry = f.clock.Now().Add(f.spell.pause)
		return
	}
	f.spell = spell{}
}

// tell logs what was not the last that it logged.
func (f *fence) tell(level slog.Level, message string, args ...any) {
	said := message
	if level == slog.LevelError {
		said = fmt.Sprint(message, args)
	}
	if said != f.spell.told {
		f.spell.told = said
		f.logger.Log(context.Background(), level, message, args...)
	}
}

// takeOver supervises what the agent has left until it is back. The lock shows an agent
// that starts whom it has to wait for; one that has started before that is seen after.
func (f *fence) takeOver(ctx context.Context) (err error) {
	lock, err := holdLock(filepath.Join(f.config.Root, fenceFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, coming := f.absence.look(); coming {
		return nil
	}
	return f.actUntilBack(ctx)
}

func (f *fence) actUntilBack(ctx context.Context) (err error) {
	v, err := f.supervision()
	if v != nil {
		defer func() { err = errors.Join(err, v.close()) }()
	}
	if err != nil {
		return err
	}
	if err := v.Restore(); err != nil {
		f.logger.Warn("not everything is known of the launchers that ran before", "error", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { v.Run(ctx); return nil })
	group.Go(func() error { return v.processes.Wait(ctx) })
	group.Go(func() error { return f.awaitAgent(ctx, v.view) })
	if err := group.Wait(); err != nil && !errors.Is(err, errBack) {
		return err
	}
	f.logger.Info("the fence steps aside")
	return nil
}

var (
	errBack     = errors.New("the agent is back")
	errReplaced = errors.New("what tracks processes was replaced")
)

// awaitAgent waits for a sign of life of the agent, or of one that starts, which is
// errBack. Where the pins are others than before, the fence looks at what nobody keeps
// up, and has to begin anew.
func (f *fence) awaitAgent(ctx context.Context, view *bpf.View) error {
	looks := time.NewTicker(fenceLooks / 4)
	defer looks.Stop()
	for {
		away, coming := f.absence.look()
		if coming || away <= fenceLooks {
			return errBack
		}
		if view.Replaced() {
			return errReplaced
		}
		select {
		case <-ctx.Done():
			return nil
		case <-looks.C:
		}
	}
}

// supervision makes a supervisor that acts on nothing but the proven end of owners.
// It reads no events, pod directories or heartbeats: those are the agent's.
func (f *fence) supervision() (v *supervision, err error) {
	kernel, err := lifecycle.NewLinuxKernel(f.config.Proc, f.config.Cgroup)
	if err != nil {
		return nil, err
	}
	v = &supervision{}
	view, err := bpf.OpenView(f.config.BPFDir)
	if err != nil {
		return v, fmt.Errorf("look at what the agent tracks: %w", err)
	}
	v.tracker, v.view = view, view
	if v.processes, err = lifecycle.NewLinuxProcesses(kernel); err != nil {
		return v, err
	}
	if v.store, err = lifecycle.OpenFileStore(f.config.Root, f.config.Proc); err != nil {
		return v, err
	}
	t := terms(f.policy)
	t.StopUnattended, t.StopHung, t.ProofOnly = false, false, true
	config := lifecycle.SupervisorConfig{
		Registry:  lifecycle.NewRegistry(),
		Tracker:   &viewer{View: view, cgroup: f.config.Cgroup},
		Processes: v.processes,
		Store:     v.store,
		Recorder:  newJournal(f.config.Root, f.logger),
		Clock:     f.clock,
		Logger:    f.logger,
		Terms:     t,
	}
	if d := nodeDomains(f.policy); d != nil {
		config.Domains = d
	}
	v.Supervisor = lifecycle.NewSupervisor(config)
	return v, nil
}
