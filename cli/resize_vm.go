package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

const (
	// vmPrefix marks the name of a VirtualMachine. For a pod of the namespace "vm" use --namespace.
	vmPrefix = "vm/"

	// vmPeriod is the time between two reads of a VM.
	vmPeriod = time.Second
)

// resizeVM annotates a VirtualMachine of KubeVirt, and follows its status on request.
func (p *Program) resizeVM(
	ctx context.Context, c *cluster, name string, request agentapi.ResizeRequest, flags resizeFlags,
) error {
	switch {
	case c == nil:
		return usage("%s%s: a VirtualMachine is an object of a cluster: want --%s FILE, or "+
			"KUBECONFIG", vmPrefix, name, kubeconfigFlag)
	case name == "" || strings.Contains(name, "/"):
		return usage("%s%s: want %sNAME, and --namespace for another namespace", vmPrefix, name,
			vmPrefix)
	case request.CPUQuota != (api.CPUQuota{}) || request.CPUShares != 0:
		return usage("%s%s: want --vcpus and --memory: KubeVirt derives quota and shares from the "+
			"launcher's resources", vmPrefix, name)
	}
	started := time.Now()
	end := p.progress(func() string { return "waiting for the patch of the VirtualMachine" })
	vm, err := c.annotateVM(ctx, name, request)
	end()
	if err != nil {
		return err
	}
	what := "annotated with"
	if request.DryRun {
		what = "could be annotated with"
	}
	fmt.Fprintf(p.Out, "%s%s: %s %s\n", vmPrefix, printable(name), what, sizeText(request.Size))
	if !flags.wait {
		return nil
	}
	w := vmWaiter{Program: p, cluster: c, name: name, size: request.Size, started: started,
		before: vm.Annotations[api.ResizeStatusKey]}
	return w.wait(ctx, flags.timeout)
}

// annotateVM sets only the annotations of the size.
func (c *cluster) annotateVM(
	ctx context.Context, name string, request agentapi.ResizeRequest,
) (*kubevirtv1.VirtualMachine, error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": request.Size.Annotations()}})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	r := c.CoreV1().RESTClient().Patch(types.MergePatchType).Param("fieldManager", fieldManager).
		Body(patch)
	if request.DryRun {
		r = r.Param("dryRun", metav1.DryRunAll)
	}
	return c.requestVM(ctx, "patch", name, r)
}

func (c *cluster) getVM(ctx context.Context, name string) (*kubevirtv1.VirtualMachine, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	return c.requestVM(ctx, "get", name, c.CoreV1().RESTClient().Get())
}

// requestVM sends a request about a VirtualMachine and reads the answer.
func (c *cluster) requestVM(
	ctx context.Context, verb, name string, r *rest.Request,
) (*kubevirtv1.VirtualMachine, error) {
	answer := r.AbsPath("/apis", kubevirtv1.GroupVersion.String(), "namespaces", c.namespace,
		"virtualmachines", name).SetHeader("Accept", "application/json").Do(ctx)
	body, err := answer.Raw()
	if err != nil {
		return nil, clusterError(err, verb, "virtualmachines.kubevirt.io",
			fmt.Sprintf("resize of VirtualMachine %s/%s", c.namespace, name))
	}
	vm := &kubevirtv1.VirtualMachine{}
	if err := json.Unmarshal(body, vm); err != nil {
		return nil, fmt.Errorf("decode a %T: %w", vm, err)
	}
	return vm, nil
}

// vmWaiter follows the status annotation of a VirtualMachine.
type vmWaiter struct {
	*Program
	cluster *cluster
	name    string
	size    api.Size
	started time.Time
	before  string // status at the time of the patch
	shown   string
}

// wait shows each status of the requested size until the VM has it, or cannot have it.
func (w *vmWaiter) wait(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end := w.progress(func() string { return "waiting for the end of the resize" })
	defer end()
	err := wait.PollUntilContextCancel(ctx, vmPeriod, true, w.poll)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("waited for %s; the last status of VirtualMachine %s: %s. Without one, "+
			"check that mooring-controller runs in mode enforce with --resize-vms", timeout, w.name,
			printable(w.shown))
	}
	return err
}

func (w *vmWaiter) poll(ctx context.Context) (over bool, err error) {
	vm, err := w.cluster.getVM(ctx, w.name)
	if err != nil {
		return false, err
	}
	s, answered := w.answer(vm.Annotations[api.ResizeStatusKey])
	if !answered {
		return false, nil
	}
	if line := fmt.Sprintf("%s: %s", s.Reason, s.Message); line != w.shown {
		w.shown = line
		fmt.Fprintf(w.Out, "%8.2fs  %s\n", time.Since(w.started).Seconds(), printable(line))
	}
	switch s.Reason {
	case api.ResizeDone:
		return true, nil
	case api.ResizeInvalid, api.ResizeRefused, api.ResizeFailed:
		return true, errors.New("the VM could not be resized")
	}
	return false, nil
}

// answer reads the controller's status, unless it is older than the request.
func (w *vmWaiter) answer(text string) (s api.ResizeStatus, answered bool) {
	err := json.Unmarshal([]byte(text), &s)
	old := s.Reason == api.ResizeInvalid && text == w.before
	return s, err == nil && w.isAbout(s) && !old
}

// isAbout reports whether a status is about the requested size. A status of invalid annotations
// names none.
func (w *vmWaiter) isAbout(s api.ResizeStatus) bool {
	asked := api.AmountsOf(w.size)
	return s.Reason == api.ResizeInvalid || (asked.VCPUs == 0 || asked.VCPUs == s.Desired.VCPUs) &&
		(asked.Memory == "" || asked.Memory == s.Desired.Memory)
}
