package deploy

import (
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// withKubeVirt is the cluster with KubeVirt, once a test has asked for it.
var withKubeVirt atomic.Pointer[kubevirttest.Cluster]

// startKubeVirt returns the cluster with KubeVirt that the whole test binary shares.
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

// enforcedVMs is enforced with KubeVirt, and returns when the policy for VMs is in force.
func enforcedVMs(t *testing.T) (*policed, *kubevirttest.Cluster) {
	t.Helper()
	c := startKubeVirt(t)
	apply(t, c.Plane, render(t, append(enforce(), "--set=webhooks.enabled=false")...))
	p := newPolicedIn(t, c.Plane, c.Namespace(t, nil))
	p.await(t, func(err error) error { return refusedBy("mooring-annotations", err) })
	eventually(t, "the policy for VMs", func() error {
		probe := p.vm("probe", kubevirtv1.RunStrategyHalted, map[string]string{launcherKey: "c"})
		return refusedBy("mooring-vm-annotations", p.plain.Create(t.Context(), probe, client.DryRunAll))
	})
	return p, c
}

// launcherKey is an annotation of Mooring's.
const launcherKey = "launcher.mooring.dev"

// vm has these annotations for its launcher pod.
func (p *policed) vm(name string, strategy kubevirtv1.VirtualMachineRunStrategy, annotations map[string]string) *kubevirtv1.VirtualMachine {
	vmi := p.vmi(name, annotations)
	template := &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec}
	template.ObjectMeta.Annotations = annotations
	vm := &kubevirtv1.VirtualMachine{Spec: kubevirtv1.VirtualMachineSpec{RunStrategy: &strategy, Template: template}}
	vm.Namespace, vm.Name = p.namespace, name
	return vm
}

func (p *policed) vmi(name string, annotations map[string]string) *kubevirtv1.VirtualMachineInstance {
	vmi := kubevirttest.NewVMI(p.namespace, name, kubevirttest.Size{Cores: 1, Memory: "64Mi"})
	vmi.Annotations = annotations
	return vmi
}

// controllerOf is KubeVirt's own controller.
func (p *policed) controllerOf(t *testing.T) client.Client {
	t.Helper()
	return p.as(t, virtController, rest.NoWarnings{})
}
