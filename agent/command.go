package agent

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// Command returns the agent's command line. It logs to w.
func Command(build buildinfo.Info, w io.Writer) *cobra.Command {
	config := DefaultConfig()
	root := &cobra.Command{
		Use:   "mooring-agent",
		Short: "Give VM launchers the memory-lock limit and cgroup settings that the policy allows",
		Long: "Runs on every node, as a plugin of the container runtime (NRI). Ends on SIGTERM\n" +
			"with exit code 0; launchers continue undisturbed. A changed policy takes effect\n" +
			"with a restart.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), config, build, w)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	config.addFlags(root.Flags())
	config.addRootFlag(root.PersistentFlags())
	root.AddCommand(prepareCommand(&config), checkCommand(&config),
		fenceCommand(&config, build, w), versionCommand(build))
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func prepareCommand(config *Config) *cobra.Command {
	var bpffs string
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Mount the bounded tmpfs at --root, unless it is mounted",
		Long: "Mounts the bounded tmpfs at --root, and with --bpffs a bpf file system, unless\n" +
			"they are mounted. Needs CAP_SYS_ADMIN in the node's mount namespace. The agent\n" +
			"has no such right: run this before the agent.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := poddir.Mount(config.Root); err != nil || bpffs == "" {
				return err
			}
			return bpf.MountFS(agentapi.MountSource, bpffs)
		},
	}
	cmd.Flags().StringVar(&bpffs, "bpffs", "",
		"directory for a bpf file system; nodes without systemd lack it; empty: none")
	return cmd
}

// versionCommand replaces cobra's flag --version. The flag's template would keep the linker
// from dropping unused code: 20 MB.
func versionCommand(build buildinfo.Info) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "mooring-agent", build)
			return err
		},
	}
}

// collectEarly lets the heap grow only by half between two garbage collections, instead of to twice
// its size. The agent runs on every node, and collections cost it little time.
func collectEarly() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

func run(ctx context.Context, config Config, build buildinfo.Info, w io.Writer) error {
	logger, closeLog, err := openLog(w, config.LogLevel, config.LogFormat)
	if err != nil {
		return err
	}
	defer closeLog()
	collectEarly()
	// client-go logs only through klog.
	klog.SetSlogLogger(logger)
	agent, err := New(ctx, config, build, logger)
	if err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	return agent.Run(ctx)
}
