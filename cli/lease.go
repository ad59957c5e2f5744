package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// leaseFlags are the flags of lease.
type leaseFlags struct {
	period  time.Duration
	reason  string
	release bool
}

func (p *Program) leaseCommand() *cobra.Command {
	var flags leaseFlags
	cmd := &cobra.Command{
		Use:   "lease POD (--for DURATION --reason TEXT | --release)",
		Short: "Stop the agent from ending a pod's VM processes for a while",
		Long: "Prevents the agent from ending the VM processes of a pod, for example after the\n" +
			"end or a hang of their launcher, until the lease expires or is released. A stop\n" +
			"request of the pod waits, too. A new lease replaces the old one.\n\n" +
			"POD is as for inspect. The lease applies to all launchers with this namespace\n" +
			"and name.",
		Example: fmt.Sprintf("  %[1]s lease vms/vm-1 --for 5m --reason \"migration to node-2\"\n"+
			"  %[1]s lease vms/vm-1 --release", p.displayName()),
		Args:                  between(1, 1, "POD: NAMESPACE/NAME, NAME or UID"),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().DurationVar(&flags.period, "for", 0,
		fmt.Sprintf("how long: whole seconds, %s to %s", agentapi.MinLease, agentapi.MaxLease))
	cmd.Flags().StringVar(&flags.reason, "reason", "", "reason in one line")
	cmd.Flags().BoolVar(&flags.release, "release", false, "release the lease")
	output := formatFlag(cmd, formatText, formatJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		request, err := flags.request(cmd)
		if err != nil {
			return err
		}
		return p.lease(cmd.Context(), *output, args[0], request)
	}
	return cmd
}

// request returns the requested lease, nil for a release.
func (f leaseFlags) request(cmd *cobra.Command) (*agentapi.LeaseRequest, error) {
	given := cmd.Flags().Changed
	switch {
	case f.release && (given("for") || given("reason")):
		return nil, usage("%s: --release stands alone: want neither --for nor --reason with it",
			cmd.CommandPath())
	case f.release:
		return nil, nil
	case !given("for"):
		return nil, usage("%s: want --for DURATION and --reason TEXT, or --release",
			cmd.CommandPath())
	case f.period%time.Second != 0 || f.period < agentapi.MinLease || f.period > agentapi.MaxLease:
		return nil, usage("--for %s: want whole seconds, %s to %s", f.period, agentapi.MinLease,
			agentapi.MaxLease)
	}
	request := &agentapi.LeaseRequest{Seconds: int64(f.period / time.Second), Reason: f.reason}
	if err := request.Check(); err != nil {
		return nil, usage("--%w", err)
	}
	return request, nil
}

// lease creates a lease, or releases it if request is nil.
func (p *Program) lease(
	ctx context.Context, output format, pod string, request *agentapi.LeaseRequest,
) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	found, err := find(ctx, p.client(), pod)
	if err != nil {
		return err
	}
	held, err := p.changeLease(ctx, found[0].Pod, request)
	if err != nil {
		return err
	}
	if output == formatJSON {
		return writeJSON(p.Out, held)
	}
	for _, l := range held {
		fmt.Fprintf(p.Out, "%s: %s\n",
			printable(l.Pod.Namespace+"/"+l.Pod.Name+"/"+l.Container.Name), leaseText(l.Lease))
	}
	return nil
}

func (p *Program) changeLease(
	ctx context.Context, pod agentapi.PodRef, request *agentapi.LeaseRequest,
) ([]agentapi.Launcher, error) {
	if request == nil {
		return p.client().EndLease(ctx, pod.Namespace, pod.Name)
	}
	return p.client().Lease(ctx, pod.Namespace, pod.Name, *request)
}

func leaseText(l *agentapi.Lease) string {
	if l == nil {
		return "no lease"
	}
	return "lease until " + l.Until.Local().Format(time.DateTime) + " for: " + oneLine(l.Reason)
}
