package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

const (
	// checkPeriod is the time between two checks for the agent.
	checkPeriod = time.Second

	// maxRetryPause is the longest pause between two failing attempts of the fence.
	maxRetryPause = time.Minute
)

// fenceCommand runs the fence.
func fenceCommand(config *Config, build buildinfo.Info, w io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fence",
		Short: "Stop VMs whose launcher is gone, while the agent is away",
		Long: "Runs beside the agent, as a unit of its own. It takes over when the agent is\n" +
			"away for longer than the policy's lifecycle.fenceAfter. Then it stops VM\n" +
			"processes whose launcher is proven gone, and no others: a VM whose launcher\n" +
			"lives keeps running in any case. The fence needs no container runtime and no\n" +
			"Kubernetes. It steps aside as soon as the agent is back.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runFence(cmd.Context(), *config, build, w)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Policy, "policy", config.Policy,
		"node policy file; read once, at the start")
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
	p, err := policyInForce(&config)
	if err != nil {
		return fmt.Errorf("start the fence: %w", err)
	}
	f := newFence(config, p, logger, host.LinuxClock{})
	logger.Info("the fence starts", "version", build.String(), "policy", config.Policy,
		"mode", p.Mode,
		"after", p.Lifecycle.FenceAfter)
	return f.run(ctx)
}

// fence stops VMs of dead launchers while the agent is away.
type fence struct {
	config  Config
	policy  *policy.Policy
	stored  time.Time // modification of the stored NodePolicy; zero: there is none
	logger  *slog.Logger
	clock   host.Clock
	absence *absence
	outage  outage
	act     func(context.Context) error // takeOver, except in tests
}

// outage is the fence's state during one absence of the agent.
type outage struct {
	logged  string // the last message of logOnce
	retryAt host.Boottime
	pause   time.Duration // after the last failed attempt
}

func newFence(config Config, p *policy.Policy, logger *slog.Logger, clock host.Clock) *fence {
	f := &fence{
		config: config, policy: p, logger: logger, clock: clock,
		absence: newAbsence(config.Root, clock),
	}
	f.act = f.takeOver
	return f
}

// run checks for the agent until ctx is done, and acts while the agent is away.
func (f *fence) run(ctx context.Context) error {
	checks := time.NewTicker(checkPeriod)
	defer checks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-checks.C:
		}
		f.check(ctx)
	}
}

// check acts if the agent is away for too long. After a failed attempt it pauses. The pause doubles
// with each failure.
func (f *fence) check(ctx context.Context) {
	// Before the agent's first start the directory may be missing.
	_ = touchFile(filepath.Join(f.config.Root, fenceAliveFile))
	f.refreshPolicy()
	after := f.policy.Lifecycle.FenceAfter
	away, starting := f.absence.observe()
	switch {
	case after <= 0 || away <= after:
		f.outage = outage{}
		return
	case starting:
		return
	case f.clock.Now() < f.outage.retryAt:
		return
	case f.absence.neverPresent() && !supervisor.HasTies(f.config.Root):
		f.logOnce(slog.LevelInfo,
			"no agent has supervised VM processes on this node; the fence has nothing to do")
		return
	}
	if f.outage.pause == 0 {
		f.logOnce(slog.LevelWarn, "the agent is away; the fence takes over",
			"for", away.Round(time.Second))
	}
	if err := f.act(ctx); err != nil {
		f.logOnce(slog.LevelError, "the fence cannot act, and retries", "error", err)
		f.outage.pause = min(max(2*f.outage.pause, checkPeriod), maxRetryPause)
		f.outage.retryAt = f.clock.Now().Add(f.outage.pause)
		return
	}
	f.outage = outage{}
}

// policyInForce returns the NodePolicy that the agent has stored, or else the policy file.
func policyInForce(config *Config) (*policy.Policy, error) {
	p, _, err := loadPolicyCache(filepath.Join(config.Root, policyCache))
	if errors.Is(err, fs.ErrNotExist) {
		return policy.Load(config.Policy)
	}
	return p, err
}

// refreshPolicy reads the policy again after the agent has stored or removed a NodePolicy. An
// unreadable policy leaves the present one in force.
func (f *fence) refreshPolicy() {
	var stored time.Time
	if info, err := os.Stat(filepath.Join(f.config.Root, policyCache)); err == nil {
		stored = info.ModTime()
	}
	if stored.Equal(f.stored) {
		return
	}
	f.stored = stored
	p, err := policyInForce(&f.config)
	if err != nil {
		f.logger.Error("the fence keeps its policy", "error", err)
		return
	}
	f.policy = p
	f.logger.Info("the fence has a new policy", "mode", p.Mode, "after", p.Lifecycle.FenceAfter)
}

// logOnce logs a message, unless it repeats the previous one. Errors with different causes
// count as different messages.
func (f *fence) logOnce(level slog.Level, message string, args ...any) {
	text := message
	if level == slog.LevelError {
		text = fmt.Sprint(message, args)
	}
	if text != f.outage.logged {
		f.outage.logged = text
		f.logger.Log(context.Background(), level, message, args...)
	}
}

// takeOver supervises the agent's VM processes until the agent is back. The lock makes a
// starting agent wait. The check after the lock finds an agent with an earlier start.
func (f *fence) takeOver(ctx context.Context) (err error) {
	lock, err := holdLock(filepath.Join(f.config.Root, fenceLockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, starting := f.absence.observe(); starting {
		return nil
	}
	return f.superviseUntilBack(ctx)
}

func (f *fence) superviseUntilBack(ctx context.Context) (err error) {
	v, err := f.newSupervision()
	if v != nil {
		defer func() { err = errors.Join(err, v.close()) }()
	}
	if err != nil {
		return err
	}
	if err := v.Restore(); err != nil {
		f.logger.Warn("some launchers could not be restored", "error", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { v.Run(ctx); return nil })
	group.Go(func() error { return v.processes.Wait(ctx) })
	group.Go(func() error { return f.awaitAgent(ctx, v.view) })
	if err := group.Wait(); err != nil && !errors.Is(err, errAgentBack) {
		return err
	}
	f.logger.Info("the fence steps aside")
	return nil
}

var (
	errAgentBack    = errors.New("the agent is back")
	errPinsReplaced = errors.New("the tracker's pins were replaced")
)

// awaitAgent returns errAgentBack when the agent works or starts. It returns errPinsReplaced when
// the tracker has new pins: the fence must open them, because no program updates the old maps.
func (f *fence) awaitAgent(ctx context.Context, view *bpf.View) error {
	checks := time.NewTicker(checkPeriod / 4)
	defer checks.Stop()
	for {
		away, starting := f.absence.observe()
		if starting || away <= checkPeriod {
			return errAgentBack
		}
		if view.Replaced() {
			return errPinsReplaced
		}
		select {
		case <-ctx.Done():
			return nil
		case <-checks.C:
		}
	}
}

// newSupervision makes a supervisor that acts only on the proven end of a launcher. It reads no
// tracker events, pod directories or heartbeats: the agent owns these.
func (f *fence) newSupervision() (v *supervision, err error) {
	kernel, err := host.NewLinuxKernel(f.config.Proc, f.config.Cgroup)
	if err != nil {
		return nil, err
	}
	v = &supervision{}
	view, err := bpf.OpenView(f.config.BPFDir)
	if err != nil {
		return v, fmt.Errorf("open the tracker's pins: %w", err)
	}
	v.tracker, v.view = view, view
	if v.processes, err = host.NewLinuxProcesses(kernel); err != nil {
		return v, err
	}
	if v.store, err = supervisor.OpenFileStore(f.config.Root, f.config.Proc); err != nil {
		return v, err
	}
	t := terms(f.policy)
	t.StopUnattended, t.StopHung, t.ProofOnly = false, false, true
	config := supervisor.Config{
		Registry:  registry.New(),
		Tracker:   &readOnlyTracker{View: view, cgroup: f.config.Cgroup},
		Processes: v.processes,
		Store:     v.store,
		Recorder:  newJournal(f.config.Root, f.logger),
		Clock:     f.clock,
		Logger:    f.logger,
		Terms:     t,
	}
	if d := nodeDomains(f.policy, f.logger); d != nil {
		config.Domains = d
	}
	v.Supervisor = supervisor.New(config)
	return v, nil
}
