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

// fieldManager is who the API server says has set the annotations.
const fieldManager = "mooring"

// resizeInCluster patches the pod, and shows what is told of it where that is wanted.
func (p *Program) resizeInCluster(ctx context.Context, c *cluster, text string, request agentapi.ResizeRequest, flags resizeFlags) error {
	namespace, name, err := c.pod(text)
	if err != nil {
		return err
	}
	asked := request.Size.Annotations()
	w := waiter{Program: p, cluster: c, namespace: namespace, name: name, size: request.Size, flags: flags}
	if flags.wait {
		if err := w.begin(ctx, asked); err != nil {
			return err
		}
	}
	pod, err := c.annotate(ctx, namespace, name, asked, request.DryRun)
	if err != nil {
		return err
	}
	ref := agentapi.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	p.printPatched(ref, request)
	for _, key := range scopedLike(pod.Annotations, asked) {
		fmt.Fprintf(p.ErrOut, "the pod has %s: %q, which counts before what was set\n", printable(key), printable(pod.Annotations[key]))
	}
	switch {
	case request.DryRun:
		return p.planOnNode(ctx, pod, ref, request, flags)
	case flags.wait:
		return w.wait(ctx, ref)
	}
	return nil
}

// annotate sets annotations of a pod, and nothing else, whatever else becomes of the pod
// meanwhile. It returns the pod as it is then, or would be.
func (c *cluster) annotate(ctx context.Context, namespace, name string, annotations map[string]string, dryRun bool) (*corev1.Pod, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
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
	return pod, clusterError(err, "patch", "pods", fmt.Sprintf("resize of pod %s/%s", namespace, name))
}

func (p *Program) printPatched(pod agentapi.PodRef, request agentapi.ResizeRequest) {
	what := "annotated with"
	if request.DryRun {
		what = "could be annotated with"
	}
	fmt.Fprintf(p.Out, "%s: %s %s\n", printable(pod.Namespace+"/"+pod.Name), what, sizeText(request.Size))
}

// scopedLike are the annotations that count before those that were set.
func scopedLike(annotations, set map[string]string) []string {
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

// planOnNode has the agent of this node make the plan, if it has the pod.
func (p *Program) planOnNode(ctx context.Context, pod *corev1.Pod, ref agentapi.PodRef, request agentapi.ResizeRequest, flags resizeFlags) error {
	l, here := p.launcherHere(ctx, ref)
	if !here {
		where := "its node"
		if pod.Spec.NodeName != "" {
			where = "node " + pod.Spec.NodeName
		}
		fmt.Fprintf(p.ErrOut, "the plan is made on %s: run there `mooring resize %s/%s%s --dry-run --kubeconfig=`\n",
			printable(where), ref.Namespace, ref.Name, flagsText(request.Size))
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	size, err := api.ParseSize(pod.Annotations, l.Container.Name)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	request.Size = size // also the dimensions that no flag sets
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

// launcherHere returns the pod's launcher if the agent of this node can be asked and has
// it.
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

// flagsText are the flags that ask for a size.
func flagsText(s api.Size) string {
	var text strings.Builder
	names := map[string]string{api.VCPUsKey: "vcpus", api.ResizeMemoryKey: "memory", api.CPUQuotaKey: "cpu-quota", api.CPUSharesKey: "cpu-shares"}
	all := s.Annotations()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, " --%s %s", names[key], all[key])
	}
	return text.String()
}
