package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/cli/nodeconfig"
)

// configureTimeout bounds the checks and a restart of containerd, k3s or RKE2.
const configureTimeout = 2 * time.Minute

func (p *Program) nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Configure this node's containerd and libvirt",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.nodeConfigureCommand())
	return cmd
}

func (p *Program) nodeConfigureCommand() *cobra.Command {
	var undo bool
	n := &nodeconfig.Node{Print: func(line string) { fmt.Fprintln(p.Out, printable(line)) }}
	cmd := &cobra.Command{
		Use:   "configure",
		Short: "Enable containerd's validator, and the start gate of the node's libvirt",
		Long: "Enables the validator for required NRI plugins in containerd. Without it,\n" +
			"containerd starts launchers while the agent is away, even if they require it.\n" +
			"Run it as root. It needs containerd 2.2 or newer and no agent.\n\n" +
			"Writes mooring.toml into a directory that containerd's configuration imports.\n" +
			"k3s and RKE2 generate the configuration; where it imports no such directory, the\n" +
			"command adds a table to the template. A file of yours gets a copy with the suffix\n" +
			".mooring-backup. containerd then checks its configuration (containerd config\n" +
			"dump). If the check fails, the command restores the file.\n\n" +
			"The setting takes effect when containerd restarts. The command prints how, or\n" +
			"does it with --restart if containerd runs since before the change. Containers\n" +
			"keep running. A second run changes nothing.\n\n" +
			"If the node policy has lifecycle.libvirt.requireOwner, the command also installs\n" +
			"the start gate, a hook of libvirt. Run it again after a change of that list, and\n" +
			"after an upgrade. libvirt looks for hooks at its start; VMs keep running.\n\n" +
			"--undo removes setting and hook, and restores a file that it replaced.",
		Example: fmt.Sprintf("  %[1]s node configure --dry-run\n  %[1]s node configure --restart",
			p.displayName()),
		Args: between(0, 0, "none"),
	}
	flags := cmd.Flags()
	flags.StringVar(&n.Root, "root", "/", "mount point of the node's root file system")
	flags.StringVar(&n.Flavour, "flavour", "",
		strings.Join(nodeconfig.Flavours(), ", ")+" (default: by the existing files)")
	flags.StringVar(&n.Containerd, "containerd", "", "containerd's `path` on the node (default: "+
		"by the flavour)")
	flags.StringVar(&n.Policy, "policy", nodeconfig.DefaultPolicy,
		"node policy `file` on the node")
	flags.BoolVar(&n.Restart, "restart", false, "restart containerd or libvirt if it needs it")
	flags.BoolVar(&n.DryRun, "dry-run", false, "print the change without making it")
	flags.BoolVar(&undo, "undo", false, "remove the setting")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkNodeFlags(n); err != nil {
			return err
		}
		n.Run = p.withProgress(nodeconfig.Chroot(n.Root))
		ctx, cancel := context.WithTimeout(cmd.Context(), configureTimeout)
		defer cancel()
		if undo {
			return errors.Join(n.UndoGate(), n.Undo(ctx))
		}
		return errors.Join(n.ConfigureGate(ctx), n.Configure(ctx))
	}
	return cmd
}

// withProgress returns a runner that reports each program with a long run.
func (p *Program) withProgress(run nodeconfig.Runner) nodeconfig.Runner {
	return func(ctx context.Context, program string, args ...string) (string, error) {
		defer p.progress(func() string {
			return "waiting for " + strings.Join(append([]string{program}, args...), " ")
		})()
		return run(ctx, program, args...)
	}
}

// checkNodeFlags returns the first invalid flag.
func checkNodeFlags(n *nodeconfig.Node) error {
	switch known := nodeconfig.Flavours(); {
	case !filepath.IsAbs(n.Root):
		return usage("--root %q: want an absolute path", n.Root)
	case n.Flavour != "" && !slices.Contains(known, n.Flavour):
		return usage("--flavour %q: want one of %s", n.Flavour, strings.Join(known, ", "))
	case !path.IsAbs(n.Policy):
		return usage("--policy %q: want an absolute path", n.Policy)
	case n.Containerd != "" && !path.IsAbs(n.Containerd):
		return usage("--containerd %q: want an absolute path", n.Containerd)
	}
	n.Root = filepath.Clean(n.Root)
	return nil
}
