package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// Exit codes of the tool.
const (
	ExitOK         = 0
	ExitFailure    = 1 // none of the others
	ExitUsage      = 2 // the command line makes no sense
	ExitNotRunning = 3 // no agent answers, or it went away
	ExitNotFound   = 4 // the pod has no launcher on this node, or is not in the cluster
	ExitPermission = 5 // only root may ask, or the API server does not let the caller
	ExitRefused    = 6 // the pod would be refused
)

const exitCodes = `Exit codes: 0 success, 1 failure, 2 wrong usage, 3 the agent does not run,
4 no such launcher on this node or pod in the cluster, 5 permission denied, 6 the pod would be refused.`

// answerTimeout bounds a question to the agent; streams have no bound.
const answerTimeout = 10 * time.Second

// Program is one run of the tool.
type Program struct {
	Name        string // as called: argv[0]
	Build       buildinfo.Info
	In          io.Reader // nil: standard input
	Out, ErrOut io.Writer
	Now         func() time.Time

	socket string
}

// Run executes the command line and returns the exit code. It ends when ctx is
// done.
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
	if _, ok := errors.AsType[*admin.NotRunningError](err); ok || errors.Is(err, admin.ErrStreamEnded) {
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
	return ExitFailure
}

// Command returns the root command with all subcommands.
func (p *Program) Command() *cobra.Command {
	name := p.displayName()
	root := &cobra.Command{
		Use:   "mooring",
		Short: "Show what VM launchers on this node asked for and what they got",
		Long: "Asks the mooring-agent of this node what VM launcher containers asked for, what the\n" +
			"node policy allows, what they were given, what the kernel shows, and how their VM\n" +
			"processes fare. Run it as root, on the node or in the agent's pod.\n\n" + exitCodes,
		Example: fmt.Sprintf("  %[1]s ps\n  %[1]s inspect vms/virt-launcher-db-x7k2p\n  %[1]s watch", name),
		Annotations: map[string]string{
			cobra.CommandDisplayNameAnnotation: name,
		},
		Args:                       unknownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.PersistentFlags().StringVar(&p.socket, "socket", agentapi.DefaultSocket, "the agent's socket")
	root.AddCommand(p.psCommand(), p.inspectCommand(), p.watchCommand(), p.leaseCommand(), p.resizeCommand(), p.versionCommand())
	root.AddCommand(p.policyCommand(), p.memlockCommand(), p.domainCommand(), p.quotaCommand(), p.doctorCommand(), p.uninstallCommand())
	return root
}

// pluginPrefix begins the names of kubectl's plugins.
const pluginPrefix = "kubectl-"

// displayName is how users call the program: kubectl runs `kubectl-mooring` as
// its subcommand.
func (p *Program) displayName() string {
	if strings.HasPrefix(filepath.Base(p.Name), pluginPrefix) {
		return "kubectl mooring"
	}
	return "mooring"
}

func (p *Program) client() *admin.Client { return admin.NewClient(p.socket) }
