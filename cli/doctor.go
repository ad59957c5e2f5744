package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/doctor"
)

func (p *Program) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this node and explain problems",
		Long: "Checks the kernel, cgroups, containerd and its NRI, other NRI plugins, kubelet,\n" +
			"and the agent. Each finding has its meaning and its remedy. Changes nothing.\n" +
			"Needs no agent. Run it as root; otherwise many checks are impossible.\n\n" +
			"Exit code 1: a problem was found. docs/reference/doctor.md describes the\n" +
			"findings.",
		Args: between(0, 0, "none"),
	}
	var o doctor.Options
	output := formatFlag(cmd, formatText, formatJSON)
	cmd.Flags().StringVar(&o.RuntimeEndpoint, "runtime-endpoint",
		"unix:///run/containerd/containerd.sock", "the container runtime's socket for CRI")
	cmd.Flags().StringVar(&o.Config, "containerd-config", "", "containerd's configuration "+
		"(default: that of the running containerd)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o.AgentSocket = p.socket
		if o.Config != "" {
			absolute, err := filepath.Abs(o.Config)
			if err != nil {
				return fmt.Errorf("--containerd-config %q: %w", o.Config, err)
			}
			o.Config = absolute
		}
		return p.doctor(cmd.Context(), *output, doctor.ThisMachine(o))
	}
	return cmd
}

func (p *Program) doctor(ctx context.Context, output format, machine doctor.Machine) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	report := doctor.Examine(ctx, machine)
	if output == formatJSON {
		if err := writeJSON(p.Out, report); err != nil {
			return err
		}
	} else {
		writeFindings(p.Out, report.Findings)
	}
	if report.Problems > 0 {
		return fmt.Errorf("doctor: problems found: %d", report.Problems)
	}
	return nil
}

func writeFindings(w io.Writer, findings []doctor.Finding) {
	for _, f := range findings {
		fmt.Fprintf(w, "%-8s %s: %s\n", f.Status, f.Check, oneLine(f.Found))
		if f.Means != "" {
			fmt.Fprintf(w, "         %s\n", oneLine(f.Means))
		}
		if f.Mend != "" && f.Status != doctor.OK {
			fmt.Fprintf(w, "         To mend it: %s\n", oneLine(f.Mend))
		}
	}
}
