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

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
	"github.com/mooring-vm/mooring/shim/resize"
)

const (
	// agentTimeout bounds the wait for the agent, if the pod has a directory.
	agentTimeout      = 10 * time.Second
	agentPollInterval = 200 * time.Millisecond
)

func hookCommand(log *logging) *cobra.Command {
	var config hook.Config
	var socket string
	cmd := &cobra.Command{
		Use:   "hook",
		Short: "Give KubeVirt's domains headroom to grow, as a hook sidecar",
		Long: "Gives KubeVirt's domains headroom to grow, as a hook sidecar. Capacities without\n" +
			"a flag come from the node policy, which the agent provides. Without agent or\n" +
			"policy they are the host's resources.",
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
	cmd.Flags().StringVar(&socket, "agent", podapi.Socket,
		"the agent's `socket`; it provides the node policy's capacities")
	return cmd
}

// capacitySource returns a function that reads the capacities for which no flag is set.
func capacitySource(
	host headroom.Host,
	socket string,
	flags *pflag.FlagSet,
	log *slog.Logger,
) func(context.Context) (headroom.Host, error) {
	client := agent.New(socket)
	source := headroom.Source{Host: host}
	source.UseFlags(flags)
	source.Policy = func(ctx context.Context) (podapi.Headroom, error) {
		return readPolicy(ctx, client, socket)
	}
	return func(ctx context.Context) (headroom.Host, error) {
		h, from, err := source.Read(ctx)
		if err != nil {
			return h, fmt.Errorf(
				"read the node policy's capacities: %w; with --memory-capacity and "+
					"--cpu-capacity no policy is needed",
				err,
			)
		}
		log.Info("default capacities",
			"memory", api.Bytes(h.Memory<<20), "cpus", h.CPUs, "from_policy", from)
		return h, nil
	}
}

// readPolicy reads the policy's capacities from the agent, and waits up to agentTimeout for it.
// Without the pod's directory there is no agent. An agent without this request has a policy
// without capacities.
func readPolicy(
	ctx context.Context,
	client *agent.Client,
	socket string,
) (policy podapi.Headroom, err error) {
	if _, err := os.Stat(filepath.Dir(socket)); errors.Is(err, fs.ErrNotExist) {
		return podapi.Headroom{}, nil
	}
	var unreachable error
	pollErr := wait.PollUntilContextTimeout(
		ctx,
		agentPollInterval,
		agentTimeout,
		true,
		func(ctx context.Context) (bool, error) {
			policy, err = client.Headroom(ctx)
			if errors.Is(err, resize.ErrAgent) {
				unreachable = err
				return false, nil
			}
			return true, nil
		},
	)
	timedOut := pollErr != nil || errors.Is(err, context.DeadlineExceeded)
	switch {
	case unreachable != nil && timedOut: // the cause of the timeout
		err = unreachable
	case pollErr != nil && err == nil:
		err = pollErr
	}
	refused, ok := errors.AsType[*agent.RefusedError](err)
	if ok && refused.Code == podapi.CodeNotFound {
		return podapi.Headroom{}, nil
	}
	return policy, err
}
