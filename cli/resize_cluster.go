package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// fieldManager is the field manager of the annotations in the API server.
const fieldManager = "mooring"

// resizeInCluster patches the pod, and follows its reports on request.
func (p *Program) resizeInCluster(
	ctx context.Context, c *cluster, text string, request agentapi.ResizeRequest, flags resizeFlags,
) error {
	namespace, name, err := c.pod(text)
	if err != nil {
		return err
	}
	asked := request.Size.Annotations()
	w := waiter{Program: p, cluster: c, namespace: namespace, name: name, size: request.Size,
		flags: flags}
	if flags.wait {
		end := p.reading(c, "the pod and its Events")
		err := w.prepare(ctx, asked)
		end()
		if err != nil {
			return err
		}
	}
	end := p.progress(func() string { return "waiting for the patch of the pod" })
	pod, err := c.annotate(ctx, namespace, name, asked, request.DryRun)
	end()
	if err != nil {
		return err
	}
	ref := agentapi.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	p.printPatched(ref, request)
	for _, key := range overridingAnnotations(pod.Annotations, asked) {
		fmt.Fprintf(p.ErrOut, "the pod has %s: %q, which overrides the new value\n", printable(key),
			printable(pod.Annotations[key]))
	}
	switch {
	case request.DryRun:
		return p.planOnNode(ctx, pod, ref, request, flags)
	case flags.wait:
		return w.wait(ctx, ref)
	}
	return nil
}

// annotate sets only annotations of a pod, regardless of concurrent changes. It returns the patched
// pod.
func (c *cluster) annotate(
	ctx context.Context, namespace, name string, annotations map[string]string, dryRun bool,
) (*corev1.Pod, error) {
	patch, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	pod, err := c.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, options)
	return pod,
		clusterError(err, "patch", "pods", fmt.Sprintf("resize of pod %s/%s", namespace, name))
}

func (p *Program) printPatched(pod agentapi.PodRef, request agentapi.ResizeRequest) {
	what := "annotated with"
	if request.DryRun {
		what = "could be annotated with"
	}
	fmt.Fprintf(p.Out, "%s: %s %s\n", printable(pod.Namespace+"/"+pod.Name), what,
		sizeText(request.Size))
}

// overridingAnnotations returns the annotations that take precedence over the new ones.
func overridingAnnotations(annotations, set map[string]string) []string {
	var all []string
	for key := range annotations {
		base, _, scoped := strings.Cut(key, "/")
		if _, like := set[base]; scoped && like {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all
}

// planOnNode requests the plan through the agent of this node, if the pod runs here.
func (p *Program) planOnNode(
	ctx context.Context, pod *corev1.Pod, ref agentapi.PodRef, request agentapi.ResizeRequest,
	flags resizeFlags,
) error {
	l, here := p.launcherHere(ctx, ref)
	if !here {
		where := "its node"
		if pod.Spec.NodeName != "" {
			where = "node " + pod.Spec.NodeName
		}
		fmt.Fprintf(p.ErrOut, "for a plan, run on %s: `mooring resize %s/%s%s --dry-run "+
			"--kubeconfig=`\n",
			printable(where), ref.Namespace, ref.Name, flagsText(request.Size))
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	size, err := api.ParseSize(pod.Annotations, l.Container.Name)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	request.Size = size // includes dimensions without a flag
	answer, err := p.client().Resize(bounded, ref.Namespace, ref.Name, request)
	if err != nil {
		return err
	}
	for _, asked := range answer.Pods {
		if asked.UID == ref.UID {
			return p.awaitPlan(ctx, ref, asked, flags)
		}
	}
	return nil
}

// launcherHere returns the pod's launcher if this node's agent has it.
func (p *Program) launcherHere(ctx context.Context, pod agentapi.PodRef) (agentapi.Launcher, bool) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	launchers, err := p.client().LaunchersOfPod(ctx, pod.Namespace, pod.Name)
	if err != nil {
		return agentapi.Launcher{}, false
	}
	for _, l := range launchers {
		if l.Pod.UID == pod.UID && l.State == agentapi.StateRunning {
			return l, true
		}
	}
	return agentapi.Launcher{}, false
}

// flagsText returns the flags for a size.
func flagsText(s api.Size) string {
	var text strings.Builder
	names := map[string]string{api.VCPUsKey: "vcpus", api.ResizeMemoryKey: "memory",
		api.CPUQuotaKey: "cpu-quota", api.CPUSharesKey: "cpu-shares"}
	all := s.Annotations()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, " --%s %s", names[key], all[key])
	}
	return text.String()
}
