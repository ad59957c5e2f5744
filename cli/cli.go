package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// Exit codes of the tool.
const (
	ExitOK         = 0
	ExitFailure    = 1 // any other failure
	ExitUsage      = 2 // invalid command line
	ExitNotRunning = 3 // no agent answers, or the connection to it broke
	ExitNotFound   = 4 // the pod has no launcher on this node, or does not exist in the cluster
	ExitPermission = 5 // the caller is not root, or RBAC denies the request
	ExitRefused    = 6 // the pod would be refused, or another policy would refuse a launcher
	ExitChanges    = 7 // another policy would change launchers, or its result is unknown
)

const exitCodes = `Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the agent does not run,
4 no such launcher, or no such pod in the cluster, 5 permission denied, 6 a pod would be refused,
7 a policy would change launchers.`

// answerTimeout bounds a request to the agent. Streams have no bound.
const answerTimeout = 10 * time.Second

// Program is one run of the CLI.
type Program struct {
	Name        string // argv[0]
	Build       buildinfo.Info
	In          io.Reader // nil: standard input
	Out, ErrOut io.Writer
	Now         func() time.Time

	socket        string
	defaultSocket string // empty: that of the agent; only tests change it
	// 0: the constant; only tests change it
	progressPeriod time.Duration
	kube           *genericclioptions.ConfigFlags
}

// Run executes the command line and returns the exit code. It blocks until the command or ctx ends.
func (p *Program) Run(ctx context.Context, args []string) int {
	root := p.Command()
	root.SetArgs(args)
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.ErrOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	fmt.Fprintf(p.ErrOut, "error: %s\n", printable(err.Error()))
	return exitCode(err)
}

func exitCode(err error) int {
	if _, ok := errors.AsType[*usageError](err); ok {
		return ExitUsage
	}
	if _, ok := errors.AsType[*admin.NotRunningError](err); ok ||
		errors.Is(err, admin.ErrStreamEnded) {
		return ExitNotRunning
	}
	if _, ok := errors.AsType[*admin.NotFoundError](err); ok {
		return ExitNotFound
	}
	if _, ok := errors.AsType[*admin.PermissionError](err); ok || isForbidden(err) {
		return ExitPermission
	}
	if _, ok := errors.AsType[*refusedError](err); ok {
		return ExitRefused
	}
	if changes, ok := errors.AsType[*changesError](err); ok {
		return changes.exitCode()
	}
	return ExitFailure
}

// Command returns the root command with all subcommands.
func (p *Program) Command() *cobra.Command {
	name := p.displayName()
	root := &cobra.Command{
		Use:   "mooring",
		Short: "Show VM launchers: their settings, VM processes, sizes and quotas",
		Long: "Shows VM launcher containers: requested, allowed and granted settings, the\n" +
			"settings in the kernel, and the state of their VM processes.\n\n" +
			"On a node, run it as root: it asks the node's agent. As `kubectl mooring`, and\n" +
			"on a machine without an agent, it reads the states that the agents write to the\n" +
			"cluster. For that it needs the role mooring-view in the whole cluster.\n\n" +
			exitCodes,
		Example: fmt.Sprintf("  %[1]s ps\n  %[1]s inspect vms/virt-launcher-db-x7k2p\n  "+
			"%[1]s watch", name),
		Annotations: map[string]string{
			cobra.CommandDisplayNameAnnotation: name,
		},
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.PersistentFlags().StringVar(&p.socket, "socket",
		cmp.Or(p.defaultSocket, agentapi.DefaultSocket),
		"the agent's socket")
	p.kube = newKubeFlags()
	p.kube.AddFlags(root.PersistentFlags())
	completeFlag(root, "context", p.completeKubeconfig(contexts))
	completeFlag(root, "cluster", p.completeKubeconfig(clusters))
	completeFlag(root, "user", p.completeKubeconfig(users))
	root.AddCommand(p.statusCommand(), p.psCommand(), p.topCommand(), p.inspectCommand(),
		p.eventsCommand(), p.watchCommand())
	root.AddCommand(p.leaseCommand(), p.resizeCommand(), p.versionCommand())
	root.AddCommand(p.policyCommand(), p.memlockCommand(), p.domainCommand(), p.quotaCommand(),
		p.doctorCommand(), p.sysdumpCommand(), p.nodeCommand(), p.verifyCommand(),
		p.fenceCommand(), p.uninstallCommand())
	return root
}

// pluginPrefix starts the file names of kubectl plugins.
const pluginPrefix = "kubectl-"

// displayName is the program's name in help texts. kubectl runs kubectl-mooring as its subcommand.
func (p *Program) displayName() string {
	if p.isPlugin() {
		return "kubectl mooring"
	}
	return "mooring"
}

func (p *Program) client() *admin.Client { return admin.NewClient(p.socket) }
