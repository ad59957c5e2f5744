package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// startFailing returns a cluster with KubeVirt and a running VM. Until t ends, the API server calls
// webhooks with failure policy Fail, and no server answers them.
func startFailing(t *testing.T) (*policyTest, *kubevirttest.Cluster, *kubevirtv1.VirtualMachine) {
	t.Helper()
	c := startKubeVirt(t)
	p := newPolicyTestIn(t, c.Plane, c.Namespace(t, nil))
	vm := p.vm("vm", kubevirtv1.RunStrategyAlways, nil)
	if err := p.admin.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	c.AwaitRunning(t, p.instance(t, vm))
	apply(t, c.Plane, render(t, append(enforce(), "--set=webhooks.failurePolicy=Fail")...))
	create := func(ctx context.Context) error {
		return p.admin.Create(ctx, p.vm("other", kubevirtv1.RunStrategyAlways, nil),
			client.DryRunAll)
	}
	t.Cleanup(func() { p.stopCalls(t, create) })
	eventually(t, "VMs to be refused", func() error {
		return checkNoAnswer("virtualmachines.guard.mooring.dev", create(t.Context()))
	})
	return p, c, vm
}

// instance waits for the VM's instance and returns it.
func (p *policyTest) instance(
	t *testing.T, vm *kubevirtv1.VirtualMachine,
) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	eventually(t, "the VM's instance", func() error {
		return p.admin.Get(t.Context(), client.ObjectKeyFromObject(vm), vmi)
	})
	return vmi
}

// checkNoAnswer returns nil if err reports an unanswered webhook.
func checkNoAnswer(webhook string, err error) error {
	if apierrors.IsInternalError(err) && strings.Contains(err.Error(), webhook) {
		return nil
	}
	return notInForce{err}
}

// TestFailKeepsNoVM expects KubeVirt's updates of a VM's status to pass, and all steps that end a
// VM.
func TestFailKeepsNoVM(t *testing.T) {
	p, _, vm := startFailing(t)
	status := func(text string) error {
		return p.admin.Status().Patch(t.Context(), vm.DeepCopy(),
			client.RawPatch(client.Merge.Type(), []byte(text)), client.DryRunAll)
	}
	if err := status(`{"status": {"printableStatus": "Paused"}}`); err != nil {
		t.Errorf("a status is written: %v", err)
	}
	if err := status(`{"status": {"stateChangeRequests": [{"action": "Stop"}]}}`); err != nil {
		t.Errorf("a stop is asked for: %v", err)
	}
	for what, err := range map[string]error{
		"a start is asked for": status(`{"status": {"stateChangeRequests": [{"action": ` +
			`"Start"}]}}`),
		"a VM is changed": p.admin.Patch(t.Context(), vm.DeepCopy(),
			client.RawPatch(client.Merge.Type(), []byte(`{"metadata": {"labels": {"a": "b"}}}`)),
			client.DryRunAll),
	} {
		if wrong := checkNoAnswer("virtualmachines.guard.mooring.dev", err); wrong != nil {
			t.Errorf("%s: %v", what, wrong)
		}
	}
	if err := p.admin.Delete(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	// KubeVirt's controller removes the finalizers.
	p.awaitNone(t, client.ObjectKeyFromObject(vm), &kubevirtv1.VirtualMachineInstance{})
	p.awaitNone(t, client.ObjectKeyFromObject(vm), &kubevirtv1.VirtualMachine{})
}

// awaitNone returns when no object of the type and name exists.
func (p *policyTest) awaitNone(t *testing.T, key client.ObjectKey, o client.Object) {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s to be gone", o, key), func() error {
		err := p.admin.Get(t.Context(), key, o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it still exists"))
	})
}

// TestFailRefusesRestores refuses restores, because no guard can check the VM's size.
func TestFailRefusesRestores(t *testing.T) {
	p, _, vm := startFailing(t)
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"target": map[string]any{"apiGroup": "kubevirt.io",
			"kind": "VirtualMachine", "name": vm.Name},
		"virtualMachineSnapshotName": "s",
	}}}
	o.SetAPIVersion("snapshot.kubevirt.io/v1beta1")
	o.SetKind("VirtualMachineRestore")
	o.SetNamespace(p.namespace)
	o.SetName("restore")
	p.withoutOwnWebhook(t, "virtualmachinerestores")
	eventually(t, "restores to be refused", func() error {
		return checkNoAnswer("virtualmachinerestores.guard.mooring.dev",
			p.admin.Create(t.Context(), o.DeepCopy(), client.DryRunAll))
	})
}

// withoutOwnWebhook disables KubeVirt's own webhook for a resource until t ends. That webhook
// requires objects missing in this cluster.
func (p *policyTest) withoutOwnWebhook(t *testing.T, resource string) {
	t.Helper()
	var all admissionv1.ValidatingWebhookConfigurationList
	if err := p.admin.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, was := range all.Items {
		is, found := was.DeepCopy(), false
		for i, hook := range is.Webhooks {
			if !strings.HasSuffix(hook.Name, ".mooring.dev") &&
				hook.Rules[0].Resources[0] == resource {
				is.Webhooks[i].MatchConditions, found = []admissionv1.MatchCondition{
					{Name: "never", Expression: "false"}}, true
			}
		}
		if !found {
			continue
		}
		if err := p.admin.Update(t.Context(), is); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			is.Webhooks = was.Webhooks
			if err := p.admin.Update(context.WithoutCancel(t.Context()), is); err != nil {
				t.Error(err)
			}
		})
	}
}
