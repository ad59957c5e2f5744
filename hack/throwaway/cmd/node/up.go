package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

func upCommand(o *throwaway.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Boot a node in the background; down ends it",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return up(c, *o)
		},
	}
}

// up starts a supervisor process as the node's owner, and waits until the node is up.
func up(c *cobra.Command, o throwaway.Options) error {
	running, err := throwaway.Running()
	if err != nil {
		return err
	}
	if running {
		return throwaway.ErrRunning
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "supervise",
		"--source", o.Source, "--suite", o.Spec.Suite, "--containerd", o.Spec.Containerd,
		"--cpus", fmt.Sprint(o.VM.CPUs), "--memory", fmt.Sprint(o.VM.MemoryMiB))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the node's supervisor: %w", err)
	}
	stop := context.AfterFunc(c.Context(), func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	line, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil {
		return errors.Join(errors.New("the node did not start"), cmd.Wait())
	}
	fmt.Fprintf(c.OutOrStdout(), "the node is up: %s"+
		"`hack/node shell` opens a shell, `hack/node exec COMMAND` runs a command, "+
		"`hack/node down` ends the node\n", line)
	return cmd.Process.Release()
}

func superviseCommand(o *throwaway.Options) *cobra.Command {
	return &cobra.Command{
		Use:    "supervise",
		Short:  "Own a node until a signal comes",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return supervise(c.Context(), *o, c.OutOrStdout())
		},
	}
}

func supervise(ctx context.Context, o throwaway.Options, out io.Writer) error {
	n, release, err := throwaway.StartCurrent(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, n.Dir())
	child.Detach()
	select {
	case <-ctx.Done():
	case <-n.Exited():
	}
	return errors.Join(release(), n.Stop())
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the background node",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return throwaway.StopCurrent(c.Context())
		},
	}
}
