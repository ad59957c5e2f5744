package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mooring-vm/mooring/hack/kindcluster"
	"github.com/mooring-vm/mooring/hack/kindcluster/guest"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

func buildCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Make and save the cluster of a throw-away node, or find it in the cache",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return guest.Build(c.Context(), o.guest())
		},
	}
}

func runCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "run -- COMMAND [ARG...]",
		Short: "Run a command of this machine with a new cluster, which ends with it",
		Long: "Starts a cluster and runs COMMAND with $KUBECONFIG. The cluster ends with the\n" +
			"command. The exit code is the command's.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, end, err := start(c.Context(), *o)
			if err != nil {
				return err
			}
			return errors.Join(cl.run(c.Context(), args), end())
		},
	}
}

// start starts a cluster that ends with end, and in a throw-away node at the latest with this
// process.
func start(ctx context.Context, o options) (_ *cluster, end func() error, err error) {
	if !o.inNode {
		cl, err := createOnMachine(ctx, o)
		if err != nil {
			return nil, nil, err
		}
		return cl, func() error {
			return errors.Join(kindcluster.Delete(context.WithoutCancel(ctx), cl.host), cl.close())
		}, nil
	}
	g, err := guest.Start(ctx, o.guest())
	if err != nil {
		return nil, nil, err
	}
	if err := g.Publish(ctx); err != nil {
		return nil, nil, errors.Join(err, g.Stop())
	}
	return ofGuest(g), g.Stop, nil
}

// run runs a command with the cluster in its environment.
func (cl *cluster) run(ctx context.Context, args []string) error {
	cmd := child.Command(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+cl.kubeconfig), cl.env...)
	return child.Run(cmd)
}

func loadCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "load ARCHIVE...",
		Short: "Load image archives, such as bin/images/*.tar, into the nodes of the cluster",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cl, err := attach(c.Context(), *o)
			if err != nil {
				return err
			}
			return errors.Join(kindcluster.Load(c.Context(), cl.host, args...), cl.close())
		},
	}
}

func shellCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "shell",
		Short: "Open a shell in the control plane's node of the cluster",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			cl, err := attach(c.Context(), *o)
			if err != nil {
				return err
			}
			return errors.Join(shell(c.Context(), cl.host), cl.close())
		},
	}
}

func shell(ctx context.Context, h kindcluster.Host) error {
	cmd := channel.Command{
		Args:  []string{"docker", "exec", "-i", kindcluster.Name + "-control-plane", "bash", "-l"},
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return h.Run(ctx, cmd)
	}
	cmd.Args[2] = "-it"
	if columns, rows, err := term.GetSize(fd); err == nil {
		cmd.PTY = &channel.Size{Rows: rows, Columns: columns}
	}
	if _, remote := h.(*guest.Guest); remote { // docker's own client does it on this machine
		before, err := term.MakeRaw(fd)
		if err != nil {
			return err
		}
		defer term.Restore(fd, before) //nolint:errcheck // the process ends
	}
	return h.Run(ctx, cmd)
}

func downCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the cluster",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := guest.StopCurrent(c.Context())
			if o.inNode || !errors.Is(err, guest.ErrNone) {
				return err
			}
			cl, err := onMachine(c.Context(), *o)
			if err != nil {
				return err
			}
			return errors.Join(kindcluster.Delete(c.Context(), cl.host), cl.close())
		},
	}
}

func upCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start a cluster in the background; down ends it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch cl, err := attach(c.Context(), *o); {
			case err == nil:
				return errors.Join(errors.New("a cluster is running already; `hack/kind down` "+
					"ends it"), cl.close())
			case !errors.Is(err, guest.ErrNone):
				return err
			}
			kubeconfig, err := up(c, *o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "export KUBECONFIG=%s\n", kubeconfig)
			return nil
		},
	}
}

// up starts a cluster and returns the path of its kubeconfig. A supervisor process owns a
// throw-away node.
func up(c *cobra.Command, o options) (string, error) {
	if !o.inNode {
		cl, err := createOnMachine(c.Context(), o)
		if err != nil {
			return "", err
		}
		return cl.kubeconfig, cl.close()
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(self, "supervise", "--in-node", "--source", o.source,
		"--workers", fmt.Sprint(o.workers))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("starting the supervisor: %w", err)
	}
	stop := context.AfterFunc(c.Context(), func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	kubeconfig, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil {
		return "", errors.Join(errors.New("the cluster did not start"), cmd.Wait())
	}
	return strings.TrimSuffix(kubeconfig, "\n"), cmd.Process.Release()
}

func superviseCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Short:  "Own a throw-away node with a cluster until a signal comes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			g, err := guest.Start(c.Context(), o.guest())
			if err != nil {
				return err
			}
			if err := errors.Join(g.Publish(c.Context()), g.MakeCurrent()); err != nil {
				return errors.Join(err, g.Stop())
			}
			fmt.Fprintln(c.OutOrStdout(), g.KubeconfigFile())
			child.Detach()
			select {
			case <-c.Context().Done():
			case <-g.Exited():
			}
			return g.Stop()
		},
	}
}
