package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/agent/doctor"
)

// hostVariable names the node's root file system in the agent's pod.
const hostVariable = "MOORING_HOST"

func (p *Program) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this node and explain problems",
		Long: "Checks the kernel, cgroups, containerd and its NRI, other NRI plugins, kubelet,\n" +
			"and the agent. Each finding has its meaning and its remedy. Changes nothing.\n" +
			"Needs no agent. Run it as root; otherwise many checks are impossible.\n\n" +
			"--all-nodes runs it in the pod of each agent, ten nodes at the same time, and\n" +
			"shows the findings that are not ok. It also finds settings of the cluster's\n" +
			"KubeVirt that defeat or limit Mooring. It requires the role mooring-view, the\n" +
			"verb \"list\" for pods, and the verbs \"get\" and \"create\" for pods/exec in\n" +
			"the namespace of the agents. The latter right means root on the nodes.\n\n" +
			"Exit code 1: a problem was found, or a node did not answer.\n" +
			"docs/reference/doctor.md describes the findings.",
		Args: between(0, 0, "none"),
	}
	var o doctor.Options
	var flags viewFlags
	var allNodes bool
	output := formatFlag(cmd, formatText, formatJSON, formatYAML)
	flags.addCluster(cmd)
	cmd.Flags().BoolVar(&allNodes, "all-nodes", false,
		"examine all nodes of a cluster, in the pods of their agents, and KubeVirt")
	cmd.Flags().StringVar(&o.Host, "host", "/", "mount point of the node's root file system "+
		"(default in the agent's pod: "+hostVariable+")")
	cmd.Flags().StringVar(&o.RuntimeEndpoint, "runtime-endpoint", "",
		"the container runtime's socket for CRI (default: that of containerd, k3s or RKE2)")
	cmd.Flags().StringVar(&o.Config, "containerd-config", "", "containerd's configuration "+
		"(default: that of the running containerd)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkDoctorFlags(cmd, allNodes); err != nil {
			return err
		}
		if allNodes {
			c, err := p.connect(flags.clusterFlags)
			if err != nil {
				return err
			}
			return p.doctorNodes(cmd.Context(), c, *output)
		}
		o.AgentSocket = p.socket
		if host := os.Getenv(hostVariable); host != "" && !cmd.Flags().Changed("host") {
			o.Host = host
		}
		if !filepath.IsAbs(o.Host) {
			return usage("--host %q: want an absolute path", o.Host)
		}
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

// checkDoctorFlags returns the first flag of the other form.
func checkDoctorFlags(cmd *cobra.Command, allNodes bool) error {
	alien, want := append(kubeFlagNames(), kubeconfigFlag), "want it with --all-nodes alone"
	if allNodes {
		alien = []string{"host", "runtime-endpoint", "containerd-config", "socket"}
		want = "want it without --all-nodes"
	}
	for _, flag := range alien {
		if cmd.Flags().Changed(flag) {
			return usage("--%s: %s", flag, want)
		}
	}
	return nil
}

func (p *Program) doctor(ctx context.Context, output format, machine doctor.Machine) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	report := doctor.Examine(ctx, machine)
	var err error
	switch output {
	case formatJSON:
		err = writeJSON(p.Out, report)
	case formatYAML:
		err = writeYAML(p.Out, report)
	default:
		writeFindings(p.Out, report.Findings)
	}
	if err != nil {
		return err
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
