package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/heartbeat"
	"github.com/mooring-vm/mooring/shim/prestop"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/journal"
	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt"
)

// runFlags are the flags of run.
type runFlags struct {
	connect, domain  string
	socket, stopFile string
	journal          string
	overhead         overheadFlags
	maxMemory        string
	follow           bool
	heartbeat        bool
	shutdownMethods  []string
	methodTimeout    time.Duration
	policy           resize.Policy
	shutdown         shutdown.Options
}

func runCommand(log *logging) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Resize and shut down the VM of this pod, until SIGTERM",
		Long: "Resizes the VM to the pod's desired size in safe steps, and rolls back failed\n" +
			"steps. Shuts the guest down when the pod requests the stop of its VM. Waits for\n" +
			"libvirt, VM and agent while they are away.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			logger, err := log.open()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), logger)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *runFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.connect, "connect", "qemu:///system", "libvirt's `URI`")
	flags.StringVar(&f.domain, "domain", "",
		"`name` or UUID of the VM; without the flag the only running one")
	flags.StringVar(&f.socket, "agent", podapi.Socket, "the agent's `socket`")
	flags.StringVar(&f.stopFile, "stop-file", prestop.DefaultFile,
		"`file` with the pod's stop request; empty: none")
	flags.StringVar(&f.journal, "journal", "",
		"`directory` for the journal, used by nothing else, that outlives this program; required")
	f.overhead.add(flags)
	flags.BoolVar(&f.follow, "follow-limits", false,
		"resize the VM to fit the container's limits, even without annotations")
	flags.BoolVar(&f.heartbeat, "heartbeat", false, "send the pod's heartbeat")
	flags.StringSliceVar(&f.shutdownMethods, "ask", []string{string(virt.ACPI)},
		"shutdown methods, in this order: acpi, guest-agent")
	flags.DurationVar(&f.methodTimeout, "ask-timeout", 20*time.Second,
		"time for each shutdown method before the next")
	flags.DurationVar(&f.shutdown.Grace, "grace-period", shutdown.DefaultGrace,
		"time for the guest to shut down before its domain is destroyed")
	flags.DurationVar(&f.shutdown.Resend, "resend", 5*time.Second,
		"time between two shutdown requests")
	flags.BoolVar(&f.policy.Shrink, "shrink", true, "allow the VM to shrink")
	flags.BoolVar(&f.policy.Balloon, "balloon", false,
		"use the balloon if no memory device can change the memory")
	flags.DurationVar(&f.policy.Timeouts.Grow, "grow-timeout", time.Minute,
		"time without progress while the guest takes memory")
	flags.DurationVar(&f.policy.Timeouts.Shrink, "shrink-timeout", 2*time.Minute,
		"time without progress while the guest releases memory")
	flags.DurationVar(&f.policy.Timeouts.VCPUs, "vcpu-timeout", 30*time.Second,
		"time without progress while the guest brings vCPUs online or releases them")
	flags.StringVar(&f.maxMemory, "max-memory", "",
		"maximum `quantity` of guest memory; without the flag the domain's maximum")
	flags.IntVar(&f.policy.MaxVCPUs, "max-vcpus", 0,
		"maximum number of vCPUs; 0: the domain's maximum")
}

// run connects all parts, and serves the VM until ctx ends.
func (f *runFlags) run(ctx context.Context, log *slog.Logger) (err error) {
	config, err := f.config(log)
	if err != nil {
		return err
	}
	release, err := lockPod(ctx, filepath.Dir(f.socket), log)
	if ctx.Err() != nil {
		return nil // it ends before it served the VM
	}
	if err != nil {
		return err
	}
	defer release()
	file, err := journal.Open(f.journal)
	if err != nil {
		return fmt.Errorf("--journal: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := libvirt.StartEvents(); err != nil {
		return err
	}
	connection, err := libvirt.Open(ctx, f.connect, libvirt.Options{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	config.Journal, config.Connection, config.Agent = file, connection, agent.New(f.socket)
	c, err := coordinator.New(config)
	if err != nil {
		return err
	}
	log.Info("serving the VM of this pod", "libvirt", f.connect, "domain", f.domain)
	f.runCoordinator(ctx, c, log)
	return nil
}

func (f *runFlags) runCoordinator(
	ctx context.Context,
	c *coordinator.Coordinator,
	log *slog.Logger,
) {
	var heartbeats sync.WaitGroup
	if f.heartbeat {
		heartbeats.Go(func() {
			err := heartbeat.Keep(ctx, heartbeat.DefaultFile, heartbeat.DefaultInterval)
			if err != nil {
				log.Error("the heartbeat has stopped", "error", err)
			}
		})
	}
	c.Run(ctx)
	heartbeats.Wait()
}

// config builds the coordinator's configuration from the flags.
func (f *runFlags) config(log *slog.Logger) (coordinator.Config, error) {
	if f.journal == "" {
		return coordinator.Config{}, errors.New(
			"--journal: want a directory used by nothing else, such as an emptyDir mount",
		)
	}
	if f.maxMemory != "" {
		maximum, err := api.ParseBytes(f.maxMemory)
		if err != nil {
			return coordinator.Config{}, fmt.Errorf("--max-memory: %w", err)
		}
		f.policy.MaxMemory = uint64(maximum)
	}
	if err := f.checkTimeouts(); err != nil {
		return coordinator.Config{}, err
	}
	var err error
	if f.shutdown.Steps, err = f.shutdownSteps(); err != nil {
		return coordinator.Config{}, err
	}
	c := coordinator.Config{
		Domain:   f.domain,
		Follow:   f.follow,
		Policy:   f.policy,
		Shutdown: f.shutdown,
		Log:      log,
	}
	if c.Overhead, c.Formula, err = f.overhead.read(); err != nil {
		return coordinator.Config{}, err
	}
	if f.stopFile != "" {
		c.AwaitStopRequest = func(ctx context.Context) error {
			return prestop.AwaitRequest(ctx, f.stopFile)
		}
	}
	return c, nil
}

// maxStepTimeout is the maximum time of a step. The shim blocks migrations for a little more than
// twice this time, which must stay below podapi.MaxHold.
const maxStepTimeout = 29 * time.Minute

// checkTimeouts rejects a timeout of zero, which would select the default. It also rejects a step
// longer than the block on migrations.
func (f *runFlags) checkTimeouts() error {
	bounds := f.policy.Timeouts
	for _, timeout := range []struct {
		flag  string
		value time.Duration
	}{{"grow", bounds.Grow}, {"shrink", bounds.Shrink}, {"vcpu", bounds.VCPUs}} {
		if timeout.value < time.Second || timeout.value > maxStepTimeout {
			return fmt.Errorf(
				"--%s-timeout %s: want 1s to %s", timeout.flag, timeout.value, maxStepTimeout,
			)
		}
	}
	return nil
}

func (f *runFlags) shutdownSteps() ([]shutdown.Step, error) {
	known := []virt.Shutdown{virt.ACPI, virt.GuestAgent}
	var steps []shutdown.Step
	for _, name := range f.shutdownMethods {
		if !slices.Contains(known, virt.Shutdown(name)) {
			return nil, fmt.Errorf(
				"--ask %q: want a list of %s, %s", strings.Join(f.shutdownMethods, ","), virt.ACPI,
				virt.GuestAgent,
			)
		}
		steps = append(steps, shutdown.Step{Method: virt.Shutdown(name), Timeout: f.methodTimeout})
	}
	if len(steps) == 0 {
		return nil, errors.New("--ask: empty: want at least one of acpi, guest-agent")
	}
	return steps, nil
}
