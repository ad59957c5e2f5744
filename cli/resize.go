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

// resizeFlags are the flags of resize.
type resizeFlags struct {
	vcpus        int
	memory       string
	cpuQuota     string
	cpuShares    int
	dryRun, wait bool
	timeout      time.Duration
	cluster      clusterFlags
}

// resizeTimeout is the default for --timeout.
const resizeTimeout = 10 * time.Minute

func (p *Program) resizeCommand() *cobra.Command {
	var flags resizeFlags
	cmd := &cobra.Command{
		Use: "resize POD|vm/NAME (--vcpus N | --memory QUANTITY | --cpu-quota PERCENT | " +
			"--cpu-shares N)... [--dry-run | --wait]",
		Short: "Request a different size of a running VM",
		Long: "Requests a different size of a pod's VM. The sidecar in the pod resizes the VM,\n" +
			"and this command prints its reports.\n\n" +
			"With Kubernetes, the pod's annotations hold the desired size. The command\n" +
			"patches only the annotations of the given flags, in the cluster of\n" +
			"--kubeconfig, of KUBECONFIG, or of ~/.kube/config. With an agent on this\n" +
			"machine only `kubectl mooring` uses ~/.kube/config. --socket selects the agent.\n" +
			"The command requires a role with the verb \"patch\" for pods. With --dry-run,\n" +
			"the API server only checks the patch. If the pod runs on this node, its agent\n" +
			"then requests a plan from the pod. --wait follows the agent's reports if the\n" +
			"pod runs on this node, and otherwise the pod's Events: the plan at the start,\n" +
			"and all steps at the end. Following Events requires the verb \"get\" for pods, and\n" +
			"\"list\" and \"watch\" for events. --wait accepts only Events of a new\n" +
			"generation whose annotation\n" +
			agentapi.DesiredKey + " has the values of the given flags.\n\n" +
			"vm/NAME is a VirtualMachine of KubeVirt, in the namespace of --namespace or of\n" +
			"the kubeconfig. The command patches its annotations with --vcpus and --memory,\n" +
			"and mooring-controller resizes the VM, also after a restart. It requires the\n" +
			"verb \"patch\" for virtualmachines. --wait names the request by the\n" +
			"annotation " + api.ResizeRequestKey + ", and shows only the status of this\n" +
			"request. It requires the verb \"get\". A pod of a namespace vm needs\n" +
			"--namespace vm.\n\n" +
			"Without Kubernetes, the command sends the size to the agent of this node. It\n" +
			"replaces the last request. Dimensions without a flag stay as they are, or\n" +
			"follow the container's limits if the sidecar is configured to. POD is as for\n" +
			"inspect, and the request applies to all launchers with this namespace and name.",
		Example: fmt.Sprintf("  %[1]s resize -n vms vm/db --vcpus 4 --memory 8Gi --wait\n"+
			"  %[1]s resize vms/vm-1 --vcpus 4 --memory 4Gi --wait\n"+
			"  %[1]s resize vms/vm-1 --cpu-quota 150%% --dry-run\n"+
			"  %[1]s resize -n vms vm-1 --memory 4Gi --kubeconfig admin.conf", p.displayName()),
		Args:                  between(1, 1, "POD: NAMESPACE/NAME, NAME, UID, or vm/NAME"),
		DisableFlagsInUseLine: true,
	}
	flags.add(cmd)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) (
		[]string, cobra.ShellCompDirective,
	) {
		return p.completePods(&viewFlags{clusterFlags: flags.cluster})(cmd, args, typed)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.runResize(cmd, args[0], flags)
	}
	return cmd
}

// runResize requests the size from a VirtualMachine, from a pod of the cluster, or from the agent
// of this node.
func (p *Program) runResize(cmd *cobra.Command, target string, flags resizeFlags) error {
	request, err := flags.request(cmd)
	if err != nil {
		return err
	}
	c, err := p.selectCluster(cmd, flags.cluster)
	if err != nil {
		return err
	}
	if name, isVM := strings.CutPrefix(target, vmPrefix); isVM {
		return p.resizeVM(cmd.Context(), c, name, request, flags)
	}
	if c != nil {
		return p.resizeInCluster(cmd.Context(), c, target, request, flags)
	}
	return p.resize(cmd.Context(), flags.cluster.prefixed(target), request, flags)
}

func (f *resizeFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.vcpus, "vcpus", 0, "number of vCPUs")
	cmd.Flags().StringVar(&f.memory, "memory", "", "memory of the guest, such as 4Gi")
	cmd.Flags().StringVar(&f.cpuQuota, "cpu-quota", "",
		`CPU time of all vCPUs together in percent of one CPU, such as 150%; frequencies of a `+
			`vCPU and of the host, such as 1200/2400MHz; or "none"`)
	cmd.Flags().IntVar(&f.cpuShares, "cpu-shares", 0,
		fmt.Sprintf("weight against other VMs for CPU time, %d to %d; 100 is usual",
			api.MinCPUShares, api.MaxCPUShares))
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only request and show the plan")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "show the plan and each step until the VM "+
		"has the size")
	cmd.Flags().DurationVar(&f.timeout, "timeout", resizeTimeout, "maximum wait for the pod")
	f.cluster.add(cmd)
}

// request returns the size of the flags.
func (f resizeFlags) request(cmd *cobra.Command) (agentapi.ResizeRequest, error) {
	given := cmd.Flags().Changed
	annotations := map[string]string{}
	for flag, a := range map[string]struct{ key, value string }{
		"vcpus": {api.VCPUsKey, fmt.Sprint(f.vcpus)}, "memory": {api.ResizeMemoryKey, f.memory},
		"cpu-quota":  {api.CPUQuotaKey, f.cpuQuota},
		"cpu-shares": {api.CPUSharesKey, fmt.Sprint(f.cpuShares)},
	} {
		if given(flag) {
			annotations[a.key] = a.value
		}
	}
	switch {
	case f.dryRun && f.wait:
		return agentapi.ResizeRequest{}, usage("%s: --dry-run always waits for the plan: want "+
			"either --dry-run or --wait", cmd.CommandPath())
	case len(annotations) == 0:
		return agentapi.ResizeRequest{},
			usage("%s: want --vcpus, --memory, --cpu-quota or --cpu-shares", cmd.CommandPath())
	case f.timeout <= 0:
		return agentapi.ResizeRequest{}, usage("--timeout %s: want more than 0", f.timeout)
	}
	size, err := api.ParseSize(annotations, "")
	if err != nil {
		return agentapi.ResizeRequest{}, usage("%s: %w", cmd.CommandPath(), err)
	}
	return agentapi.ResizeRequest{Size: size, DryRun: f.dryRun}, nil
}

// resize requests a size, and follows the pod's reports on request.
func (p *Program) resize(
	ctx context.Context, pod string, request agentapi.ResizeRequest, flags resizeFlags,
) error {
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
		p.printRequested(ref, answer)
		if err := p.followRequest(ctx, ref, asked, flags); err != nil {
			return err
		}
	}
	return p.missingSidecar(found, flags)
}

func (p *Program) printRequested(pod agentapi.PodRef, answer agentapi.ResizeAnswer) {
	what := "requested"
	if answer.DryRun {
		what = "requested a plan for"
	}
	fmt.Fprintf(p.Out, "%s: %s %s\n", printable(pod.Namespace+"/"+pod.Name), what,
		sizeText(answer.Size))
}

// missingSidecar warns if no pod has reported a resize so far.
func (p *Program) missingSidecar(found []agentapi.Launcher, flags resizeFlags) error {
	if flags.wait || flags.dryRun {
		return nil
	}
	for _, l := range found {
		if l.Resize != nil {
			return nil
		}
	}
	_, err := fmt.Fprintln(p.ErrOut, "the pod has not reported any resize yet: it needs "+
		"Mooring's sidecar, or another client of the pod's socket")
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
