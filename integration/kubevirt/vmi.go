package kubevirttest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// Size is the size of a guest.
type Size struct {
	Cores  uint32
	Memory string // a quantity, such as "1Gi"
}

// NewVMI returns a migratable VMI that the caller may change and create.
func NewVMI(namespace, name string, size Size) *virtv1.VirtualMachineInstance {
	guest := resource.MustParse(size.Memory)
	live := virtv1.EvictionStrategyLiveMigrate
	vmi := &virtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: name}}
	vmi.Spec = virtv1.VirtualMachineInstanceSpec{
		EvictionStrategy: &live,
		Domain: virtv1.DomainSpec{
			CPU:    &virtv1.CPU{Cores: size.Cores},
			Memory: &virtv1.Memory{Guest: &guest},
			Devices: virtv1.Devices{
				Disks: []virtv1.Disk{
					{Name: "root", DiskDevice: virtv1.DiskDevice{
						Disk: &virtv1.DiskTarget{Bus: virtv1.DiskBusVirtio}}}},
				Interfaces: []virtv1.Interface{{
					Name: "default",
					InterfaceBindingMethod: virtv1.InterfaceBindingMethod{
						Masquerade: &virtv1.InterfaceMasquerade{}},
				}},
			},
		},
		Networks: []virtv1.Network{*virtv1.DefaultPodNetwork()},
		Volumes: []virtv1.Volume{{
			Name: "root",
			VolumeSource: virtv1.VolumeSource{ContainerDisk: &virtv1.ContainerDiskSource{
				Image: "registry.test/disk"}},
		}},
	}
	return vmi
}

// VMI makes a VMI.
func (c *Cluster) VMI(
	t testing.TB, namespace, name string, size Size,
) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi := NewVMI(namespace, name, size)
	if err := c.Client.Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	return vmi
}

// RunningVMI makes a VMI and returns when it runs.
func (c *Cluster) RunningVMI(
	t testing.TB, namespace, name string, size Size,
) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi := c.VMI(t, namespace, name, size)
	c.AwaitRunning(t, vmi)
	return vmi
}

// AwaitRunning returns when a VMI runs and virt-controller considers it migratable. It refreshes
// the VMI.
func (c *Cluster) AwaitRunning(t testing.TB, vmi *virtv1.VirtualMachineInstance) {
	t.Helper()
	Eventually(t, "VMI "+vmi.Name+" to run", func() bool {
		c.get(t, vmi)
		return vmi.IsRunning() && vmi.Status.NodeName != ""
	})
}

// Launchers returns the stored launcher pods of a VMI, ended ones included.
func (c *Cluster) Launchers(t testing.TB, vmi *virtv1.VirtualMachineInstance) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	of := client.MatchingLabels{virtv1.CreatedByLabel: string(vmi.UID)}
	if err := c.Client.List(t.Context(), pods, client.InNamespace(vmi.Namespace), of); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// Keep lets the launcher in a pod run after the end of its migration and after the pod's deletion,
// until Release.
func (c *Cluster) Keep(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	c.annotate(t, pod, actor.Keep, new(""))
}

// Release ends the effect of Keep.
func (c *Cluster) Release(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	c.annotate(t, pod, actor.Keep, nil)
}
