// Package command is the command line of mooring-controller.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/internal/logflags"
)

const program = "mooring-controller"

// Command returns the controller's command line. It logs to w.
func Command(build buildinfo.Info, w io.Writer) *cobra.Command {
	config := DefaultConfig()
	root := &cobra.Command{
		Use:   program,
		Short: "Raise ResourceQuotas for the live migrations of VMs, and lower them afterwards",
		Long: "Run one or two of them in a cluster. One leads, the other waits. Ends on SIGTERM " +
			"with exit\n" +
			"code 0. The next leader continues unfinished work.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), config, build, w)
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	config.addFlags(root.Flags())
	root.AddCommand(versionCommand(build))
	root.CompletionOptions.DisableDefaultCmd = true
	return root
}

func versionCommand(build buildinfo.Info) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), program, build)
			return err
		},
	}
}

func run(ctx context.Context, config Config, build buildinfo.Info, w io.Writer) error {
	if err := config.check(); err != nil {
		return err
	}
	logger, err := logflags.New(w, config.LogLevel, config.LogFormat)
	if err != nil {
		return err
	}
	// The only way to set the logger of the libraries.
	klog.SetSlogLogger(logger)
	runtimelog.SetLogger(logr.FromSlogHandler(logger.Handler()))
	logger.Info("the controller starts", "version", build.String(), "mode", config.Mode)
	p, err := newProgram(ctx, config, logger)
	if err != nil {
		return fmt.Errorf("start the controller: %w", err)
	}
	if err := outcome(ctx, p.Start(ctx), logger); err != nil {
		logger.Error("the controller ends", "error", err)
		return fmt.Errorf("run the controller: %w", err)
	}
	logger.Info("the controller has stopped")
	return nil
}
