package estimate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/virt"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// equal compares amounts regardless of their format.
func equal() cmp.Option {
	return cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

func version(t testing.TB, text string) kubevirt.Version {
	t.Helper()
	v, err := kubevirt.ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// input is a VM with 2 CPUs and 1 GiB in a namespace without quotas.
func input(t testing.TB) estimate.Input {
	guest := resource.MustParse("1Gi")
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "vms",
		Name: "db"}}
	vmi.Spec.Domain = kubevirtv1.DomainSpec{CPU: &kubevirtv1.CPU{Cores: 2},
		Memory: &kubevirtv1.Memory{Guest: &guest}}
	return estimate.Input{
		VMI: vmi, Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}},
		Cluster: virt.Cluster{Version: version(t, "v1.7.0"),
			Configuration: &kubevirtv1.KubeVirtConfiguration{}},
	}
}

func of(t testing.TB, in estimate.Input) estimate.Launcher {
	t.Helper()
	l, err := estimate.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func quotaOf(pairs ...string) []*corev1.ResourceQuota {
	return []*corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: list(pairs...)}}}
}

// TestCharge checks amounts worked out by hand, unlike the integration test. The overhead of 1 GiB
// in 2 CPUs without a request is 220 MiB for processes, 16 for vCPUs, 8 for I/O threads and 32 for
// graphics. The console has 5m/35M and 15m/60M.
func TestCharge(t *testing.T) {
	l := of(t, input(t))
	want := list("pods", "1", "count/pods", "1",
		"cpu", "205m", "requests.cpu", "205m", // 2 vCPUs / 10, and the console
		"memory", "1398148800", "requests.memory", "1398148800", // 1Gi + 276Mi + 35M
		"ephemeral-storage", "50M", "requests.ephemeral-storage", "50M",
		"limits.cpu", "15m", "limits.memory", "60M",
		"requests.devices.kubevirt.io/kvm", "1", "requests.devices.kubevirt.io/tun", "1",
		"requests.devices.kubevirt.io/vhost-net", "1")
	if diff := cmp.Diff(want, l.Pod.Charge, equal()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if want := resource.MustParse("276Mi"); l.Overhead.Cmp(want) != 0 {
		t.Errorf("overhead %s, want %s", &l.Overhead, &want)
	}
	if len(l.Unknown) > 0 || l.LimitRatio != 0 {
		t.Errorf("unknown: %q, ratio %g", l.Unknown, l.LimitRatio)
	}
}

func TestLimitsForAQuota(t *testing.T) {
	in := input(t)
	in.Quotas = quotaOf("limits.cpu", "8", "limits.memory", "8Gi")
	l := of(t, in)
	charge := l.Pod.Charge
	if l.LimitRatio != 2 {
		t.Errorf("ratio %g, want 2", l.LimitRatio)
	}
	want := list("limits.cpu", "2015m", "limits.memory", "2786297600") // 2 x (1Gi + 276Mi) + 60M
	for name, q := range want {
		if got := charge[name]; got.Cmp(q) != 0 {
			t.Errorf("%s: got %s, want %s", name, &got, &q)
		}
	}
}

// sized is a change of a VM or of KubeVirt, with parts of the resulting charge worked out by hand.
type sized struct {
	change func(*kubevirtv1.VirtualMachineInstanceSpec, *kubevirtv1.KubeVirtConfiguration)
	want   corev1.ResourceList
}

// ofVM returns changes of the VM's container.
func ofVM() map[string]sized {
	return map[string]sized{
		"dedicated CPUs": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			s.Domain.CPU.DedicatedCPUPlacement = true // 100Mi more
		}, list("limits.cpu", "2015m", "requests.cpu", "2015m", "limits.memory", "1528006400",
			"requests.memory", "1528006400")},
		"emulator thread": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			s.Domain.CPU.DedicatedCPUPlacement, s.Domain.CPU.IsolateEmulatorThread = true, true
		}, list("limits.cpu", "3015m", "requests.cpu", "3015m")},
		"huge pages": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			// 276Mi and 35M remain
			s.Domain.Memory.Hugepages = &kubevirtv1.Hugepages{PageSize: "2Mi"}
		}, list("hugepages-2Mi", "1Gi", "requests.hugepages-2Mi", "1Gi", "requests.memory",
			"324406976")},
		"huge pages of a VM without guest memory": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			s.Domain.Memory = &kubevirtv1.Memory{Hugepages: &kubevirtv1.Hugepages{PageSize: "2Mi"}}
			s.Domain.Resources = kubevirtv1.ResourceRequirements{Requests: list("memory", "512Mi"),
				Limits: list("memory", "1Gi")}
		}, list("hugepages-2Mi", "512Mi", "limits.memory", "887326464")}, // 512Mi, 277Mi and 60M
		"overhead overcommitted": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			s.Domain.Resources = kubevirtv1.ResourceRequirements{Requests: list("memory", "1Gi"),
				OvercommitGuestOverhead: true}
		}, list("requests.memory", "1108741824")}, // 1Gi and 35M
		"memory overcommitted": {func(_ *kubevirtv1.VirtualMachineInstanceSpec,
			c *kubevirtv1.KubeVirtConfiguration) {
			c.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{MemoryOvercommit: 200,
				CPUAllocationRatio: 4}
		}, list("requests.memory", "861277888", "requests.cpu", "505m")}, // 512Mi, 276Mi and 35M
		"CPU request of the cluster": {func(_ *kubevirtv1.VirtualMachineInstanceSpec,
			c *kubevirtv1.KubeVirtConfiguration) {
			c.CPURequest = new(resource.MustParse("300m"))
		}, list("requests.cpu", "305m")},
		"CPU limit": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			s.Domain.Resources.Limits = list("cpu", "1")
		}, list("requests.cpu", "1005m", "limits.cpu", "1015m")},
		"a larger console": {func(_ *kubevirtv1.VirtualMachineInstanceSpec,
			c *kubevirtv1.KubeVirtConfiguration) {
			console := kubevirtv1.ResourceRequirementsWithoutClaims{Limits: list("memory", "90M"),
				Requests: list("cpu", "9m")}
			c.SupportContainerResources = []kubevirtv1.SupportContainerResources{
				{Type: kubevirtv1.GuestConsoleLog, Resources: console}}
		}, list("limits.memory", "90M", "requests.cpu", "209m")},
	}
}

// ofOthers returns changes of the other containers.
func ofOthers() map[string]sized {
	volumes := []kubevirtv1.Volume{
		{Name: "disk", VolumeSource: kubevirtv1.VolumeSource{
			ContainerDisk: &kubevirtv1.ContainerDiskSource{}}},
		{Name: "files",
			VolumeSource: kubevirtv1.VolumeSource{ConfigMap: &kubevirtv1.ConfigMapVolumeSource{}}},
	}
	return map[string]sized{
		"no console": {func(_ *kubevirtv1.VirtualMachineInstanceSpec,
			c *kubevirtv1.KubeVirtConfiguration) {
			c.VirtualMachineOptions = &kubevirtv1.VirtualMachineOptions{
				DisableSerialConsoleLog: &kubevirtv1.DisableSerialConsoleLog{}}
		}, list("requests.cpu", "200m", "limits.cpu", "0")},
		"a disk and files": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			_ *kubevirtv1.KubeVirtConfiguration) {
			s.Volumes, s.Domain.Devices.Filesystems = volumes,
				[]kubevirtv1.Filesystem{{Name: "files"}}
		}, list("requests.cpu", "216m", "limits.cpu", "125m", "limits.memory", "180M",
			"requests.ephemeral-storage", "100M")},
		"a disk as an image volume": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			c *kubevirtv1.KubeVirtConfiguration) {
			s.Volumes = volumes[:1]
			c.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{
				FeatureGates: []string{"ImageVolume"}}
		}, list("requests.cpu", "205m", "limits.memory", "100M", "requests.ephemeral-storage",
			"50M")},
		"devices": {func(s *kubevirtv1.VirtualMachineInstanceSpec,
			c *kubevirtv1.KubeVirtConfiguration) {
			s.Domain.Devices.GPUs = []kubevirtv1.GPU{{DeviceName: "example.com/gpu"},
				{DeviceName: "example.com/gpu"}, {ClaimRequest: &kubevirtv1.ClaimRequest{}}}
			s.Domain.Devices.AutoattachVSOCK = new(true)
			c.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{UseEmulation: true}
		}, list("requests.example.com/gpu", "2", "requests.devices.kubevirt.io/vhost-vsock", "1",
			"requests.devices.kubevirt.io/kvm", "0")},
	}
}

func TestContainers(t *testing.T) {
	all := ofVM()
	maps.Copy(all, ofOthers())
	for name, test := range all {
		t.Run(name, func(t *testing.T) {
			in := input(t)
			test.change(&in.VMI.Spec, in.Cluster.Configuration)
			charge := of(t, in).Pod.Charge
			for name, q := range test.want {
				if got := charge[name]; got.Cmp(q) != 0 {
					t.Errorf("%s: got %s, want %s", name, &got, &q)
				}
			}
		})
	}
}

// TestRatio is a golden value from a running cluster: KubeVirt 1.4, ratio 1.5.
func TestRatio(t *testing.T) {
	in := input(t)
	in.Cluster.Version = version(t, "1.4.0")
	ratio, err := kubevirt.ParseRatio("1.5")
	if err != nil {
		t.Fatal(err)
	}
	in.Cluster.Ratio = ratio
	in.VMI.Spec.Domain.CPU.Cores = 1
	in.VMI.Spec.Domain.Resources = kubevirtv1.ResourceRequirements{
		Requests: list("memory", "682Mi"), Limits: list("memory", "1Gi", "cpu", "1")}
	l := of(t, in)
	if got, want := l.Pod.Charge["limits.memory"],
		resource.MustParse("1516469952"); got.Cmp(want) != 0 {
		t.Errorf("limits.memory %s, want %s", &got, &want)
	}
	if l.Overhead.Value() != 382728128 {
		t.Errorf("overhead %s, want 382728128", &l.Overhead)
	}
}

// TestOldWebhook: up to 1.6.3 the webhook sets a memory request, which the overhead of page tables
// depends on.
func TestOldWebhook(t *testing.T) {
	in := input(t)
	before := of(t, in).Overhead
	in.Cluster.Version = version(t, "1.6.0")
	after := of(t, in).Overhead
	tables := int64(1 << 30 / 512)
	if got := after.Value() - before.Value(); got < tables || got > tables+1000 {
		t.Errorf("page tables are %d bytes, want %d rounded up", got, tables)
	}
}

func TestNetworkBindingPlugin(t *testing.T) {
	in := input(t)
	in.Cluster.Configuration.NetworkConfiguration = &kubevirtv1.NetworkConfiguration{
		Binding: map[string]kubevirtv1.InterfaceBindingPlugin{
			"passt": {SidecarImage: "image",
				ComputeResourceOverhead: &kubevirtv1.ResourceRequirementsWithoutClaims{
					Requests: list("memory", "250Mi")}},
			"other": {SidecarImage: "image"},
		}}
	in.Cluster.Configuration.SupportContainerResources = []kubevirtv1.SupportContainerResources{
		{Type: kubevirtv1.SideCar, Resources: kubevirtv1.ResourceRequirementsWithoutClaims{
			Requests: list("cpu", "100m", "memory", "0")}},
	}
	plain := of(t, in)
	for _, name := range []string{"a", "b"} {
		in.VMI.Spec.Domain.Devices.Interfaces = append(in.VMI.Spec.Domain.Devices.Interfaces,
			kubevirtv1.Interface{Name: name, Binding: &kubevirtv1.PluginBinding{Name: "passt"}})
	}
	l := of(t, in)
	grown := l.Pod.Charge["requests.cpu"]
	grown.Sub(plain.Pod.Charge["requests.cpu"])
	if grown.MilliValue() != 100 || l.Overhead.Value()-plain.Overhead.Value() != 250<<20 {
		t.Errorf("the plugin adds %s and %d bytes, want 100m and 250Mi, once", &grown,
			l.Overhead.Value()-plain.Overhead.Value())
	}
}

func TestAutoCPULimit(t *testing.T) {
	in := input(t)
	in.Namespace.Labels = map[string]string{"limit": "cpu"}
	in.Cluster.Configuration.AutoCPULimitNamespaceLabelSelector = &metav1.LabelSelector{
		MatchLabels: in.Namespace.Labels}
	if got := of(t, in).Pod.Charge["limits.cpu"]; got.String() != "2015m" {
		t.Errorf("limits.cpu %s, want 2015m", &got)
	}
}

func TestLimitRange(t *testing.T) {
	in := input(t)
	in.LimitRanges = []*corev1.LimitRange{
		{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypePod, Default: list("memory", "9Gi")},
			{Type: corev1.LimitTypeContainer, Default: list("memory", "3Gi"),
				DefaultRequest: list("memory", "2Gi")},
		}}}}
	charge := of(t, in).Pod.Charge
	// 3Gi and 60M; as without
	for name, q := range list("limits.memory", "3281225472", "requests.memory", "1398148800") {
		if got := charge[name]; got.Cmp(q) != 0 {
			t.Errorf("%s: got %s, want %s", name, &got, &q)
		}
	}
}

// TestShim: mooring-shim requests 10m and 64Mi, with limits of 100m and 64Mi.
func TestShim(t *testing.T) {
	yes, no := map[string]string{api.InjectSidecarKey: "follow-limits"},
		map[string]string{api.InjectSidecarKey: "false"}
	own := map[string]string{api.InjectSidecarKey: "true", api.SidecarKey: "shim"}
	for name, c := range map[string]struct {
		vm, namespace map[string]string
		want          bool
	}{
		"not requested":        {nil, nil, false},
		"the VM":               {yes, nil, true},
		"its namespace":        {nil, yes, true},
		"the VM, against it":   {no, yes, false},
		"it has one":           {own, yes, false},
		"unreadable":           {nil, map[string]string{api.InjectSidecarKey: "maybe"}, false},
		"the VM, all the same": {yes, no, true},
	} {
		in := input(t)
		in.Shim = true
		without := of(t, in).Pod.Charge
		in.VMI.Annotations, in.Namespace.Annotations = c.vm, c.namespace
		got := added(of(t, in).Pod.Charge, without)
		want := corev1.ResourceList{}
		if c.want {
			want = list("cpu", "10m", "requests.cpu", "10m", "limits.cpu", "100m", "memory", "64Mi",
				"requests.memory", "64Mi", "limits.memory", "64Mi")
		}
		if diff := cmp.Diff(want, got, equal()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		in.Shim = false
		if got := added(of(t, in).Pod.Charge, without); len(got) > 0 {
			t.Errorf("%s, and there is none to add: %v", name, got)
		}
	}
}

// TestShimOfAGuaranteedLauncher: the QoS class stays Guaranteed.
func TestShimOfAGuaranteedLauncher(t *testing.T) {
	in := input(t)
	in.Shim, in.VMI.Spec.Domain.CPU.DedicatedCPUPlacement = true, true
	without := of(t, in).Pod.Charge
	in.VMI.Annotations = map[string]string{api.InjectSidecarKey: "true"}
	if got := added(of(t, in).Pod.Charge, without)["requests.cpu"]; got.String() != "100m" {
		t.Errorf("requests.cpu: %s more, want 100m", &got)
	}
}

// added returns the difference of two charges.
func added(charge, than corev1.ResourceList) corev1.ResourceList {
	more := corev1.ResourceList{}
	for name, q := range charge {
		if q.Sub(than[name]); !q.IsZero() {
			more[name] = q
		}
	}
	return more
}

func TestUnknown(t *testing.T) {
	in := input(t)
	in.Cluster.Configuration.DefaultRuntimeClass = "special"
	in.Cluster.Configuration.DeveloperConfiguration = &kubevirtv1.DeveloperConfiguration{
		FeatureGates: []string{"AlignCPUs"}}
	in.VMI.Spec.Domain.CPU.IsolateEmulatorThread = true
	in.VMI.Spec.ResourceClaims = make([]kubevirtv1.VirtualMachineInstanceResourceClaim, 1)
	in.VMI.Spec.Networks = []kubevirtv1.Network{
		{Name: "n", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{}}}}
	disk := &kubevirtv1.DataVolumeSource{Name: "d", Hotpluggable: true}
	in.VMI.Spec.Volumes = []kubevirtv1.Volume{
		{Name: "v", VolumeSource: kubevirtv1.VolumeSource{DataVolume: disk}}}
	got := of(t, in).Unknown
	for _, want := range []string{"RuntimeClass special", "even", "claims",
		"NetworkAttachmentDefinition", "hot-plugged"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%q: want one with %q", got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, change := range map[string]func(*estimate.Input){
		"spec.domain.memory.guest": func(in *estimate.Input) {
			in.VMI.Spec.Domain.Memory.Guest = new(resource.MustParse("-1Gi"))
		},
		"KubeVirt version": func(in *estimate.Input) { in.Cluster.Version = kubevirt.Version{} },
	} {
		in := input(t)
		change(&in)
		_, err := estimate.Estimate(in)
		if err == nil || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), `VM "db"`) {
			t.Errorf("got %v, want one of %s", err, name)
		}
	}
}

// TestProperties: arguments stay unchanged, the charge grows with guest memory, and requests do not
// exceed limits.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		in := input(t)
		domain := &in.VMI.Spec.Domain
		domain.CPU.Cores = rapid.Uint32Range(0, 64).Draw(r, "cores")
		domain.CPU.DedicatedCPUPlacement = rapid.Bool().Draw(r, "dedicated")
		if rapid.Bool().Draw(r, "huge pages") {
			domain.Memory.Hugepages = &kubevirtv1.Hugepages{PageSize: "2Mi"}
		}
		if rapid.Bool().Draw(r, "limits") {
			in.Quotas = quotaOf("limits.cpu", "1", "limits.memory", "1")
		}
		guest := resource.NewQuantity(rapid.Int64Range(1, 1<<42).Draw(r, "guest"),
			resource.BinarySI)
		domain.Memory.Guest = guest
		was := in.VMI.DeepCopy()
		small := of(t, in).Pod.Charge
		if diff := cmp.Diff(was, in.VMI, equal()); diff != "" {
			r.Fatalf("the VM was changed: %s", diff)
		}
		domain.Memory.Guest = resource.NewQuantity(guest.Value()+1<<30, resource.BinarySI)
		large := of(t, in).Pod.Charge
		for name, q := range small {
			if more := large[name]; more.Cmp(q) < 0 {
				r.Fatalf("%s: %s with 1Gi more, and %s without", name, &more, &q)
			}
		}
	})
}
