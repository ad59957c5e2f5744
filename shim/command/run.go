package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
		Short: "Look after the VM of this pod until SIGTERM",
		Long: "Makes the VM as large as its pod wants it, in the right order and with what fails undone,\n" +
			"and has its guest shut down when the pod asks for its end. It waits for libvirt, the VM and\n" +
			"the agent for as long as they are away.",
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
	flags.StringVar(&f.domain, "domain", "", "`name` or UUID of the VM; without it the only one that runs")
	flags.StringVar(&f.socket, "agent", podapi.Socket, "the agent's `socket`")
	flags.StringVar(&f.stopFile, "stop-file", prestop.DefaultFile, "`file` that is touched when the pod asks for the end of its VM; empty: none")
	flags.StringVar(&f.journal, "journal", "", "`directory` of its own, that outlives this program; required")
	f.overhead.add(flags)
	flags.BoolVar(&f.follow, "follow-limits", false, "have the VM become what the container's limits leave room for, also without annotations")
	flags.BoolVar(&f.heartbeat, "heartbeat", false, "give the pod's heartbeat")
	flags.StringSliceVar(&f.shutdownMethods, "ask", []string{string(virt.ACPI)}, "how the guest is asked to shut down, in this order: acpi, guest-agent")
	flags.DurationVar(&f.methodTimeout, "ask-timeout", 20*time.Second, "how long it is asked in one way before the next is tried")
	flags.DurationVar(&f.shutdown.Grace, "grace-period", 30*time.Second, "how long the guest has to shut down before it is destroyed")
	flags.DurationVar(&f.shutdown.Resend, "resend", 5*time.Second, "how often it is asked again")
	flags.BoolVar(&f.policy.Shrink, "shrink", true, "let the VM become smaller, too")
	flags.BoolVar(&f.policy.Balloon, "balloon", false, "use the balloon where nothing else can change the memory")
	flags.DurationVar(&f.policy.Bounds.Grow, "grow-timeout", time.Minute, "how long the guest has to take memory")
	flags.DurationVar(&f.policy.Bounds.Shrink, "shrink-timeout", 2*time.Minute, "how long the guest has to give memory back")
	flags.DurationVar(&f.policy.Bounds.VCPUs, "vcpu-timeout", 30*time.Second, "how long the guest has to take vCPUs into use, or to give them back")
	flags.StringVar(&f.maxMemory, "max-memory", "", "`quantity` that the guest may have at most; without it what its domain allows")
	flags.IntVar(&f.policy.MaxVCPUs, "max-vcpus", 0, "vCPUs that it may have at most; 0: what its domain allows")
}

// run wires everything, and looks after the VM until ctx ends.
func (f *runFlags) run(ctx context.Context, log *slog.Logger) (err error) {
	config, err := f.config(log)
	if err != nil {
		return err
	}
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
	log.Info("looking after the VM of this pod", "libvirt", f.connect, "domain", f.domain)
	f.runCoordinator(ctx, c, log)
	return nil
}

func (f *runFlags) runCoordinator(ctx context.Context, c *coordinator.Coordinator, log *slog.Logger) {
	var heartbeats sync.WaitGroup
	if f.heartbeat {
		heartbeats.Go(func() {
			if err := heartbeat.Keep(ctx, heartbeat.DefaultFile, heartbeat.DefaultInterval); err != nil {
				log.Error("no heartbeat is given any more", "error", err)
			}
		})
	}
	c.Run(ctx)
	heartbeats.Wait()
}

// config is what the flags say.
func (f *runFlags) config(log *slog.Logger) (coordinator.Config, error) {
	if f.journal == "" {
		return coordinator.Config{}, errors.New("--journal: want a directory of its own, such as an emptyDir that is mounted there")
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
	c := coordinator.Config{Domain: f.domain, Follow: f.follow, Policy: f.policy, Shutdown: f.shutdown, Log: log}
	if c.Overhead, c.Formula, err = f.overhead.read(); err != nil {
		return coordinator.Config{}, err
	}
	if f.stopFile != "" {
		c.Stops = func() (bool, error) { return prestop.Requested(f.stopFile) }
	}
	return c, nil
}

// mostTimeout is the longest bound of a step: migrations are held off for twice that and
// a little more, and for podapi.MaxHold at most.
const maxStepTimeout = 29 * time.Minute

// checkTimeouts keeps a bound from being taken for the default, and a step from outliving
// what holds migrations off.
func (f *runFlags) checkTimeouts() error {
	bounds := f.policy.Bounds
	for _, timeout := range []struct {
		flag  string
		value time.Duration
	}{{"grow", bounds.Grow}, {"shrink", bounds.Shrink}, {"vcpu", bounds.VCPUs}} {
		if timeout.value < time.Second || timeout.value > maxStepTimeout {
			return fmt.Errorf("--%s-timeout %s: want 1s to %s", timeout.flag, timeout.value, maxStepTimeout)
		}
	}
	return nil
}

func (f *runFlags) shutdownSteps() ([]shutdown.Step, error) {
	known := []virt.Shutdown{virt.ACPI, virt.GuestAgent}
	var steps []shutdown.Step
	for _, name := range f.shutdownMethods {
		if !slices.Contains(known, virt.Shutdown(name)) {
			return nil, fmt.Errorf("--ask %q: want some of %s, %s", strings.Join(f.shutdownMethods, ","), virt.ACPI, virt.GuestAgent)
		}
		steps = append(steps, shutdown.Step{Method: virt.Shutdown(name), Timeout: f.methodTimeout})
	}
	if len(steps) == 0 {
		return nil, errors.New("--ask: empty: want at least one of acpi, guest-agent")
	}
	return steps, nil
}
