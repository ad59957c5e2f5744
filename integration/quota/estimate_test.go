package quota

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	hackkubevirt "github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/virt"
)

// estimateCase is a VM. The test compares the estimate of its launcher with the pod from
// virt-controller.
type estimateCase struct {
	name   string
	change func(*kubevirtv1.VirtualMachineInstance)
	hard   corev1.ResourceList // of a quota of the namespace
	label  string              // the namespace's ratio of memory limits
	ranges *corev1.LimitRange
}

func requests(pairs ...string) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) {
		v.Spec.Domain.Resources.Requests = list(pairs...)
	}
}

func limits(pairs ...string) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) {
		v.Spec.Domain.Resources.Limits = list(pairs...)
	}
}

// combine combines several changes.
func combine(
	changes ...func(*kubevirtv1.VirtualMachineInstance),
) func(*kubevirtv1.VirtualMachineInstance) {
	return func(v *kubevirtv1.VirtualMachineInstance) {
		for _, change := range changes {
			change(v)
		}
	}
}

func plainVM(*kubevirtv1.VirtualMachineInstance) {}

func noTopology(v *kubevirtv1.VirtualMachineInstance) { v.Spec.Domain.CPU = nil }

func noGuest(v *kubevirtv1.VirtualMachineInstance) { v.Spec.Domain.Memory = nil }

func dedicated(v *kubevirtv1.VirtualMachineInstance) {
	v.Spec.Domain.CPU.DedicatedCPUPlacement = true
}

func hugePages(v *kubevirtv1.VirtualMachineInstance) {
	v.Spec.Domain.Memory.Hugepages = &kubevirtv1.Hugepages{PageSize: "2Mi"}
}

// limitsQuota returns a quota on limits. KubeVirt then adds limits to the launchers.
func limitsQuota() corev1.ResourceList { return list("limits.cpu", "64", "limits.memory", "64Gi") }

// withDefaults returns test cases for an unconfigured KubeVirt.
func withDefaults() []estimateCase {
	always := false
	return []estimateCase{
		{name: "plain", change: plainVM},
		{name: "no topology", change: combine(noTopology, requests("cpu", "1500m"))},
		{name: "requests alone",
			change: combine(noGuest, requests("memory", "900Mi", "cpu", "250m"))},
		{name: "limits alone",
			change: combine(noGuest, noTopology, limits("memory", "1Gi", "cpu", "3"))},
		{name: "request and limit", change: combine(requests("memory", "600Mi"),
			limits("memory", "1200Mi", "cpu", "4"))},
		{name: "Guaranteed", change: combine(requests("memory", "1Gi", "cpu", "2"),
			limits("memory", "1Gi", "cpu", "2"))},
		{name: "limits for a quota", change: plainVM, hard: limitsQuota()},
		{name: "limits for a quota by a ratio", change: plainVM, hard: limitsQuota(), label: "1.3"},
		{name: "one limit for a quota", change: limits("memory", "2Gi"), hard: limitsQuota()},
		{name: "memory overhead overcommitted", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Resources = kubevirtv1.ResourceRequirements{
				Requests: list("memory", "1Gi"), OvercommitGuestOverhead: true}
		}},
		{name: "huge pages", change: hugePages},
		{name: "huge pages and more", change: combine(hugePages, requests("memory", "1100Mi"),
			limits("memory", "1200Mi"))},
		{name: "three CPUs by topology", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.CPU = &kubevirtv1.CPU{Sockets: 3, Cores: 1, Threads: 1}
		}},
		{name: "sixteen CPUs", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.CPU = &kubevirtv1.CPU{Sockets: 2, Cores: 4, Threads: 2}
		}},
		{name: "few devices", change: func(v *kubevirtv1.VirtualMachineInstance) {
			d := &v.Spec.Domain.Devices
			d.AutoattachGraphicsDevice, d.AutoattachSerialConsole, d.LogSerialConsole = &always,
				&always, &always
			d.AutoattachPodInterface, d.Interfaces, v.Spec.Networks = &always, nil, nil
		}},
		{name: "emulated network card", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.Interfaces[0].Model = "e1000e"
		}},
		{name: "default network", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.Interfaces, v.Spec.Networks = nil, nil
		}},
		{name: "TPM and probes", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.TPM = &kubevirtv1.TPMDevice{}
			probe := &kubevirtv1.Probe{
				Handler: kubevirtv1.Handler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
			v.Spec.LivenessProbe, v.Spec.ReadinessProbe = probe, probe
		}},
		{name: "two container disks", change: secondDisk},
		{name: "a LimitRange", change: plainVM, ranges: limitRange()},
		{name: "a LimitRange and a quota", change: plainVM, ranges: limitRange(),
			hard: limitsQuota()},
		{name: "a priority class", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.PriorityClassName = "system-cluster-critical"
		}},
	}
}

func secondDisk(v *kubevirtv1.VirtualMachineInstance) {
	disk, volume := v.Spec.Domain.Devices.Disks[0], v.Spec.Volumes[0]
	disk.Name, volume.Name = "second", "second"
	v.Spec.Domain.Devices.Disks = append(v.Spec.Domain.Devices.Disks, disk)
	v.Spec.Volumes = append(v.Spec.Volumes, volume)
}

func limitRange() *corev1.LimitRange {
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "range"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: list("memory", "3Gi", "cpu", "5"),
			DefaultRequest: list("memory", "2Gi", "cpu", "1"),
		}}}}
}

// configured is a KubeVirt with many settings.
const configured = `{"spec": {"configuration": {
	"additionalGuestMemoryOverheadRatio": "1.5",
	"cpuRequest": "300m",
	"developerConfiguration": {"cpuAllocationRatio": 7, "memoryOvercommit": 128, "featureGates": [
		"CPUManager", "HostDevices", "GPU", "Sidecar", "WorkloadEncryptionSEV", "VirtIOFSConfigVolumesGate", "EnableVirtioFsConfigVolumes"]},
	"permittedHostDevices": {"pciHostDevices": [
		{"pciVendorSelector": "10DE:1EB8", "resourceName": "example.com/gpu"}, {"pciVendorSelector": "8086:6F54", "resourceName": "example.com/qat"}]},
	"supportContainerResources": [{"type": "container-disk", "resources": {"limits": {"memory": "90M"}, "requests": {"cpu": "7m"}}},
		{"type": "guest-console-log", "resources": {"limits": {"cpu": "30m"}, "requests": {"memory": "40M"}}}]}}}`

// withSettings returns test cases for the configured KubeVirt.
func withSettings() []estimateCase {
	return []estimateCase{
		{name: "plain", change: plainVM},
		{name: "no CPU request", change: noTopology},
		{name: "limits alone", change: combine(noGuest, limits("memory", "1Gi"))},
		{name: "dedicated CPUs", change: dedicated},
		{name: "dedicated CPUs for a quota", change: combine(dedicated, secondDisk),
			hard: limitsQuota()},
		{name: "emulator thread",
			change: combine(dedicated, func(v *kubevirtv1.VirtualMachineInstance) {
				v.Spec.Domain.CPU.IsolateEmulatorThread = true
			})},
		{name: "dedicated huge pages", change: combine(dedicated, hugePages)},
		{name: "GPUs and host devices", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.Devices.GPUs = []kubevirtv1.GPU{
				{Name: "a", DeviceName: "example.com/gpu"},
				{Name: "b", DeviceName: "example.com/gpu"}}
			v.Spec.Domain.Devices.HostDevices = []kubevirtv1.HostDevice{
				{Name: "c", DeviceName: "example.com/qat"}}
		}},
		{name: "hook sidecars", change: hooks},
		{name: "hook sidecars of a Guaranteed VM",
			change: combine(hooks, requests("memory", "1Gi", "cpu", "2"),
				limits("memory", "1Gi", "cpu", "2"))},
		{name: "SEV", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.LaunchSecurity = &kubevirtv1.LaunchSecurity{SEV: &kubevirtv1.SEV{}}
			v.Spec.Domain.Firmware = &kubevirtv1.Firmware{
				Bootloader: &kubevirtv1.Bootloader{EFI: &kubevirtv1.EFI{SecureBoot: new(false)}}}
		}},
		{name: "I/O threads", change: func(v *kubevirtv1.VirtualMachineInstance) {
			v.Spec.Domain.IOThreadsPolicy = new(kubevirtv1.IOThreadsPolicySupplementalPool)
			v.Spec.Domain.IOThreads = &kubevirtv1.DiskIOThreads{
				SupplementalPoolThreadCount: new(uint32(3))}
		}},
		{name: "file system of a ConfigMap", change: sharedFS},
	}
}

func hooks(v *kubevirtv1.VirtualMachineInstance) {
	v.Annotations = map[string]string{"hooks.kubevirt.io/hookSidecars": `[{"image": "registry.test/hook"}, {"image": "registry.test/hook"}]`}
}

func sharedFS(v *kubevirtv1.VirtualMachineInstance) {
	v.Spec.Domain.Devices.Filesystems = []kubevirtv1.Filesystem{
		{Name: "config", Virtiofs: &kubevirtv1.FilesystemVirtiofs{}}}
	source := &kubevirtv1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{
		Name: "kube-root-ca.crt"}}
	v.Spec.Volumes = append(v.Spec.Volumes,
		kubevirtv1.Volume{Name: "config", VolumeSource: kubevirtv1.VolumeSource{ConfigMap: source}})
}

// TestEstimate compares the estimate with virt-controller's pods. It estimates the VMI as written
// by the user and as stored after virt-api's webhook.
func TestEstimate(t *testing.T) {
	c := kubevirttest.Start(t)
	for _, e := range withDefaults() {
		t.Run(e.name, func(t *testing.T) {
			e.run(t, c, 1)
		})
	}
}

func TestEstimateOfAConfiguredKubeVirt(t *testing.T) {
	c := kubevirttest.Start(t)
	c.Configure(t, configured)
	for _, e := range withSettings() {
		t.Run(e.name, func(t *testing.T) {
			e.run(t, c, 20) // virt-controller reads the settings after a delay
		})
	}
}

// run makes VMs until one estimate is right. It fails t after the given number of attempts.
func (e estimateCase) run(t *testing.T, c *kubevirttest.Cluster, attempts int) {
	in := e.input(t, c)
	var err error
	for i := range attempts {
		in.VMI = kubevirttest.NewVMI(in.Namespace.Name, fmt.Sprint("vm-", i),
			kubevirttest.Size{Cores: 2, Memory: "1Gi"})
		e.change(in.VMI)
		if err = compare(t, c, in); err == nil {
			return
		}
	}
	t.Error(err)
}

// input makes a namespace for the VM and returns the estimate's input about it and about KubeVirt.
func (e estimateCase) input(t *testing.T, c *kubevirttest.Cluster) estimate.Input {
	in := estimate.Input{Namespace: &corev1.Namespace{}, Cluster: clusterOf(t, c)}
	name := c.Namespace(t, e.hard)
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: name}, in.Namespace); err != nil {
		t.Fatal(err)
	}
	if e.label != "" {
		in.Namespace.Labels[kubevirtv1.AutoMemoryLimitsRatioLabel] = e.label
		if err := c.Client.Update(t.Context(), in.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	if e.hard != nil {
		in.Quotas = []*corev1.ResourceQuota{quotaOf(t, c, name, kubevirttest.QuotaName)}
	}
	if e.ranges != nil {
		e.ranges.Namespace = name
		if err := c.Client.Create(t.Context(), e.ranges); err != nil {
			t.Fatal(err)
		}
		in.LimitRanges = []*corev1.LimitRange{e.ranges}
	}
	return in
}

// compare makes a VMI and returns the difference between estimate and launcher.
func compare(t *testing.T, c *kubevirttest.Cluster, in estimate.Input) error {
	t.Helper()
	written, err := estimate.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), in.VMI); err != nil {
		t.Fatal(err)
	}
	stored, err := estimate.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	made := quota.Reserve(v1alpha1.RoleLauncher, launcherOf(t, c, in.VMI))
	equal := cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
	if diff := cmp.Diff(made, written.Pod, equal); diff != "" {
		return fmt.Errorf("as written: (-made +estimated)\n%s", diff)
	}
	if diff := cmp.Diff(made, stored.Pod, equal); diff != "" {
		return fmt.Errorf("as stored: (-made +estimated)\n%s", diff)
	}
	return nil
}

// launcherOf waits for the launcher of a VMI and returns it.
func launcherOf(
	t *testing.T, c *kubevirttest.Cluster, vmi *kubevirtv1.VirtualMachineInstance,
) *corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, "a launcher", func() error {
		if pods = c.Launchers(t, vmi); len(pods) == 0 {
			return errors.New("no launcher")
		}
		return nil
	})
	return &pods[0]
}

// clusterOf returns the cluster's KubeVirt configuration, without a version.
func clusterOf(t *testing.T, c *kubevirttest.Cluster) virt.Cluster {
	t.Helper()
	object := &kubevirtv1.KubeVirt{}
	key := client.ObjectKey{Namespace: hackkubevirt.Namespace, Name: hackkubevirt.Name}
	if err := c.Client.Get(t.Context(), key, object); err != nil {
		t.Fatal(err)
	}
	object.Status.ObservedKubeVirtVersion = "v1.7.0"
	cluster, err := virt.FromObject(object)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// TestEstimateOfAnInstanceType uses virt-controller's VM controller.
func TestEstimateOfAnInstanceType(t *testing.T) {
	c := kubevirttest.Start(t)
	in := estimateCase{}.input(t, c)
	size := &instancetypev1beta1.VirtualMachineInstancetype{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace.Name, Name: "size"}}
	size.Spec = instancetypev1beta1.VirtualMachineInstancetypeSpec{
		CPU: instancetypev1beta1.CPUInstancetype{Guest: 6},
		Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("2Gi"),
			OvercommitPercent: 15},
	}
	preference := &instancetypev1beta1.VirtualMachinePreference{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace.Name, Name: "preference"}}
	preference.Spec = instancetypev1beta1.VirtualMachinePreferenceSpec{
		Devices: &instancetypev1beta1.DevicePreferences{
			PreferredTPM: &kubevirtv1.TPMDevice{}, PreferredAutoattachGraphicsDevice: new(false),
			PreferredInterfaceModel: "e1000e",
		}}
	createAs(t, c, size,
		instancetypev1beta1.SchemeGroupVersion.WithKind("VirtualMachineInstancetype"))
	createAs(t, c, preference,
		instancetypev1beta1.SchemeGroupVersion.WithKind("VirtualMachinePreference"))

	template := kubevirttest.NewVMI(in.Namespace.Name, "vm",
		kubevirttest.Size{Cores: 1, Memory: "1Gi"})
	template.Spec.Domain.CPU, template.Spec.Domain.Memory = nil, nil
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: template.ObjectMeta,
		Spec: kubevirtv1.VirtualMachineSpec{
			RunStrategy: new(kubevirtv1.RunStrategyAlways),
			Template:    &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: template.Spec},
			Instancetype: &kubevirtv1.InstancetypeMatcher{Name: size.Name,
				Kind: "VirtualMachineInstancetype"},
			Preference: &kubevirtv1.PreferenceMatcher{Name: preference.Name,
				Kind: "VirtualMachinePreference"},
		}}
	in.VMI = template.DeepCopy()
	estimate.Expand(&in.VMI.Spec, &size.Spec, &preference.Spec)
	got, err := estimate.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the VM's instance", func() error {
		return c.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)
	})
	made := quota.Reserve(v1alpha1.RoleLauncher, launcherOf(t, c, template))
	if diff := cmp.Diff(made, got.Pod, cmp.Comparer(func(a, b resource.Quantity) bool {
		return a.Cmp(b) == 0
	})); diff != "" {
		t.Errorf("(-made +estimated)\n%s", diff)
	}
}

// createAs creates an object of a kind missing in the client's scheme.
func createAs(
	t *testing.T, c *kubevirttest.Cluster, o client.Object, kind schema.GroupVersionKind,
) {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(kind)
	if err := c.Client.Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
}
