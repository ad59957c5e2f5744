package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// resizeFlags is what a resize is asked for with.
type resizeFlags struct {
	vcpus        int
	memory       string
	cpuQuota     string
	cpuShares    int
	dryRun, wait bool
	timeout      time.Duration
	cluster      clusterFlags
}

// resizeTimeout is how long is waited for the pod where nothing else is said.
const resizeTimeout = 10 * time.Minute

func (p *Program) resizeCommand() *cobra.Command {
	var flags resizeFlags
	cmd := &cobra.Command{
		Use:   "resize POD (--vcpus N | --memory QUANTITY | --cpu-quota PERCENT | --cpu-shares N)... [--dry-run | --wait]",
		Short: "Ask for another size of a running VM",
		Long: "Asks for another size of a pod's VM. The sidecar in the pod does the work, and what is\n" +
			"printed of it is what it tells.\n\n" +
			"With Kubernetes the pod's own annotations say the size. They are patched, and nothing else of\n" +
			"the pod, in the cluster of --kubeconfig, of KUBECONFIG, or as `kubectl mooring` that of\n" +
			"kubectl; annotations that no flag is for stay. It takes a role with the verb \"patch\" for\n" +
			"pods. With --dry-run the API server checks the patch and forgets it, and the agent of this\n" +
			"node, if it has the pod, has it planned. --wait follows what the agent shows if the pod is on\n" +
			"this node, and else the pod's Events, which tell the plan when it begins, and all steps when\n" +
			"it ends; for that it takes the verb \"get\" for pods, and \"list\" and \"watch\" for events. The\n" +
			"Event that it waits for is one of a generation that no Event told of before the patch, and\n" +
			"says in its annotation " + agentapi.DesiredKey + " that the pod asked for just what the\n" +
			"flags ask for: for what they leave out it may be anything.\n\n" +
			"Without Kubernetes the agent of this node is asked. It takes the place of what was asked\n" +
			"before; what is left out is let be, or follows the limits if the sidecar is to. POD is as for\n" +
			"inspect, and all launchers of pods with that namespace and name are meant.",
		Example: fmt.Sprintf("  %[1]s resize vms/vm-1 --vcpus 4 --memory 4Gi --wait\n"+
			"  %[1]s resize vms/vm-1 --cpu-quota 150%% --dry-run\n"+
			"  %[1]s resize -n vms vm-1 --memory 4Gi --kubeconfig admin.conf", p.displayName()),
		Args:                  between(1, 1, "POD: NAMESPACE/NAME, NAME or UID"),
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().IntVar(&flags.vcpus, "vcpus", 0, "number of vCPUs")
	cmd.Flags().StringVar(&flags.memory, "memory", "", "memory of the guest, such as 4Gi")
	cmd.Flags().StringVar(&flags.cpuQuota, "cpu-quota", "", `CPU time of all vCPUs together in percent of one CPU, such as 150%; frequencies of a vCPU and of the host, such as 1200/2400MHz; or "none"`)
	cmd.Flags().IntVar(&flags.cpuShares, "cpu-shares", 0, fmt.Sprintf("weight against other VMs for CPU time, %d to %d; 100 is usual", api.MinCPUShares, api.MaxCPUShares))
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "only have it planned, and show the plan")
	cmd.Flags().BoolVar(&flags.wait, "wait", false, "show the plan and each step, until the VM is as wanted")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", resizeTimeout, "how long to wait for the pod")
	flags.cluster.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		request, err := flags.request(cmd)
		if err != nil {
			return err
		}
		c, err := p.cluster(cmd, flags.cluster)
		if err != nil {
			return err
		}
		if c != nil {
			return p.resizeInCluster(cmd.Context(), c, args[0], request, flags)
		}
		return p.resize(cmd.Context(), flags.cluster.prefixed(args[0]), request, flags)
	}
	return cmd
}

// request is what the flags ask for.
func (f resizeFlags) request(cmd *cobra.Command) (agentapi.ResizeRequest, error) {
	given := cmd.Flags().Changed
	annotations := map[string]string{}
	for flag, a := range map[string]struct{ key, value string }{
		"vcpus": {api.VCPUsKey, fmt.Sprint(f.vcpus)}, "memory": {api.ResizeMemoryKey, f.memory},
		"cpu-quota": {api.CPUQuotaKey, f.cpuQuota}, "cpu-shares": {api.CPUSharesKey, fmt.Sprint(f.cpuShares)},
	} {
		if given(flag) {
			annotations[a.key] = a.value
		}
	}
	switch {
	case f.dryRun && f.wait:
		return agentapi.ResizeRequest{}, usage("%s: --dry-run waits for the plan by itself: want not both it and --wait", cmd.CommandPath())
	case len(annotations) == 0:
		return agentapi.ResizeRequest{}, usage("%s: want --vcpus, --memory, --cpu-quota or --cpu-shares", cmd.CommandPath())
	case f.timeout <= 0:
		return agentapi.ResizeRequest{}, usage("--timeout %s: want more than 0", f.timeout)
	}
	size, err := api.ParseSize(annotations, "")
	if err != nil {
		return agentapi.ResizeRequest{}, usage("%s: %w", cmd.CommandPath(), err)
	}
	return agentapi.ResizeRequest{Size: size, DryRun: f.dryRun}, nil
}

// resize asks for a size, and shows what the pod tells of it where that is wanted.
func (p *Program) resize(ctx context.Context, pod string, request agentapi.ResizeRequest, flags resizeFlags) error {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	found, err := find(bounded, p.client(), pod)
	if err != nil {
		return err
	}
	ref := found[0].Pod
	answer, err := p.client().Resize(bounded, ref.Namespace, ref.Name, request)
	if err != nil {
		return err
	}
	for _, asked := range answer.Pods {
		p.printAsked(ref, answer)
		if err := p.followAsked(ctx, ref, asked, flags); err != nil {
			return err
		}
	}
	return p.missingSidecar(found, flags)
}

func (p *Program) printAsked(pod agentapi.PodRef, answer agentapi.ResizeAnswer) {
	what := "asked for"
	if answer.DryRun {
		what = "asked for a plan for"
	}
	fmt.Fprintf(p.Out, "%s: %s %s\n", printable(pod.Namespace+"/"+pod.Name), what, sizeText(answer.Size))
}

// missingSidecar tells that nobody may be there to do what was asked for.
func (p *Program) missingSidecar(found []agentapi.Launcher, flags resizeFlags) error {
	if flags.wait || flags.dryRun {
		return nil
	}
	for _, l := range found {
		if l.Resize != nil {
			return nil
		}
	}
	_, err := fmt.Fprintln(p.ErrOut, "nobody in the pod has told of a resize yet: it needs Mooring's sidecar, or a client of the pod's socket")
	return err
}

func sizeText(s api.Size) string {
	var all []string
	if s.VCPUs != 0 {
		all = append(all, fmt.Sprintf("%d vCPUs", s.VCPUs))
	}
	if s.Memory != 0 {
		all = append(all, s.Memory.String()+" of memory")
	}
	if s.CPUQuota != (api.CPUQuota{}) {
		all = append(all, "CPU quota "+s.CPUQuota.String())
	}
	if s.CPUShares != 0 {
		all = append(all, fmt.Sprintf("%d CPU shares", s.CPUShares))
	}
	return strings.Join(all, ", ")
}
