package deploy

import (
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// withKubeVirt is the cluster with KubeVirt, started by the first test that requires it.
var withKubeVirt atomic.Pointer[kubevirttest.Cluster]

// startKubeVirt returns the KubeVirt cluster shared by the test binary.
func startKubeVirt(t *testing.T) *kubevirttest.Cluster {
	t.Helper()
	c := kubevirttest.Start(t)
	withKubeVirt.Store(c)
	return c
}

func stopKubeVirt() error {
	if c := withKubeVirt.Load(); c != nil {
		return c.Stop()
	}
	return nil
}

// startEnforcedVMs is startEnforced with KubeVirt. It returns when the policy for VMs is in force.
func startEnforcedVMs(t *testing.T) (*policyTest, *kubevirttest.Cluster) {
	t.Helper()
	c := startKubeVirt(t)
	apply(t, c.Plane, render(t, append(enforce(), "--set=webhooks.enabled=false")...))
	p := newPolicyTestIn(t, c.Plane, c.Namespace(t, nil))
	p.await(t, func(err error) error { return checkRefusedBy("mooring-annotations", err) })
	eventually(t, "the policy for VMs", func() error {
		probe := p.vm("probe", kubevirtv1.RunStrategyHalted, map[string]string{launcherKey: "c"})
		return checkRefusedBy("mooring-vm-annotations",
			p.plain.Create(t.Context(), probe, client.DryRunAll))
	})
	return p, c
}

// launcherKey is one of Mooring's annotations.
const launcherKey = "launcher.mooring.dev"

// vm returns a VM with these annotations for its launcher pod.
func (p *policyTest) vm(
	name string, strategy kubevirtv1.VirtualMachineRunStrategy, annotations map[string]string,
) *kubevirtv1.VirtualMachine {
	vmi := p.vmi(name, annotations)
	template := &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec}
	template.ObjectMeta.Annotations = annotations
	vm := &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &strategy,
		Template: template}}
	vm.Namespace, vm.Name = p.namespace, name
	return vm
}

func (p *policyTest) vmi(
	name string, annotations map[string]string,
) *kubevirtv1.VirtualMachineInstance {
	vmi := kubevirttest.NewVMI(p.namespace, name, kubevirttest.Size{Cores: 1, Memory: "64Mi"})
	vmi.Annotations = annotations
	return vmi
}

// controllerOf returns a client with the rights of KubeVirt's controller.
func (p *policyTest) controllerOf(t *testing.T) client.Client {
	t.Helper()
	return p.as(t, virtController, rest.NoWarnings{})
}
