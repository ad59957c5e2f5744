package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// vmPrefix marks the name of a VirtualMachine. For a pod of the namespace "vm" use --namespace.
const vmPrefix = "vm/"

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
	asked := request.Size.Annotations()
	if flags.wait {
		asked[api.ResizeRequestKey] = uuid.NewString()
	}
	err := c.annotateVM(ctx, name, asked, request.DryRun)
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
	w := vmWaiter{Program: p, cluster: c, name: name, asked: asked, started: started}
	return w.wait(ctx, flags.timeout)
}

// annotateVM sets only these annotations.
func (c *cluster) annotateVM(
	ctx context.Context, name string, annotations map[string]string, dryRun bool,
) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	r := c.CoreV1().RESTClient().Patch(types.MergePatchType).Param("fieldManager", fieldManager).
		Body(patch)
	if dryRun {
		r = r.Param("dryRun", metav1.DryRunAll)
	}
	_, err = c.requestVM(ctx, "patch", name, r)
	return err
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
