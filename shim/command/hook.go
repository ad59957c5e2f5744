package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
	"github.com/mooring-vm/mooring/shim/resize"
)

const (
	// agentPatience is how long an agent may be away that has shown the pod its directory.
	agentTimeout      = 10 * time.Second
	agentPollInterval = 200 * time.Millisecond
)

func hookCommand(log *logging) *cobra.Command {
	var config hook.Config
	var socket string
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Give KubeVirt's domains headroom to grow, as a hook sidecar",
		Long: "Gives KubeVirt's domains headroom to grow, as a hook sidecar. Where no flag says how much, the\n" +
			"node's agent is asked for what its policy says, and without agent or policy it is the host's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if config.Log, err = log.open(); err != nil {
				return err
			}
			if config.Options.Host, err = headroom.ReadHost(os.DirFS("/")); err != nil {
				return fmt.Errorf("hook: %w", err)
			}
			config.Host = capacitySource(config.Options.Host, socket, cmd.Flags(), config.Log)
			return hook.Serve(cmd.Context(), config)
		},
	}
	config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&socket, "agent", podapi.Socket, "the agent's `socket`, which is asked for what the flags leave open")
	return cmd
}

// capacities is asked how far a domain may grow where the flags leave it open.
func capacitySource(host headroom.Host, socket string, flags *pflag.FlagSet, log *slog.Logger) func(context.Context) (headroom.Host, error) {
	client := agent.New(socket)
	source := headroom.Source{Host: host}
	source.UseFlags(flags)
	source.Policy = func(ctx context.Context) (podapi.Headroom, error) { return readPolicy(ctx, client, socket) }
	return func(ctx context.Context) (headroom.Host, error) {
		h, from, err := source.Read(ctx)
		if err != nil {
			return h, fmt.Errorf("what the node policy gives VMs is not known: %w; it is not asked with --memory-capacity and --cpu-capacity", err)
		}
		log.Info("what the domain may grow to where no flag says it", "memory_mib", h.Memory, "cpus", h.CPUs, "by_policy", from)
		return h, nil
	}
}

// askPolicy asks the agent, and waits a while for one that is away. Without the pod's
// directory there is none; one that knows no such question has a policy that does not say it.
func readPolicy(ctx context.Context, client *agent.Client, socket string) (policy podapi.Headroom, err error) {
	if _, err := os.Stat(filepath.Dir(socket)); errors.Is(err, fs.ErrNotExist) {
		return podapi.Headroom{}, nil
	}
	var unreachable error
	pollErr := wait.PollUntilContextTimeout(ctx, agentPollInterval, agentTimeout, true, func(ctx context.Context) (bool, error) {
		policy, err = client.Headroom(ctx)
		if errors.Is(err, resize.ErrAgent) {
			unreachable = err
			return false, nil
		}
		return true, nil
	})
	switch {
	case unreachable != nil && (pollErr != nil || errors.Is(err, context.DeadlineExceeded)): // why it took so long
		err = unreachable
	case pollErr != nil && err == nil:
		err = pollErr
	}
	if refused, ok := errors.AsType[*agent.RefusedError](err); ok && refused.Code == podapi.CodeNotFound {
		return podapi.Headroom{}, nil
	}
	return policy, err
}
