package quota

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	memlock "github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

// gpu is a device permitted for VMs in these tests.
const gpu = "example.org/gpu"

// TestLauncherWebhook checks the launchers of the real virt-controller. The API server sends them
// to the webhook.
func TestLauncherWebhook(t *testing.T) {
	c, _ := startServing(t, "--shim-image=registry.test/mooring-shim:v1")
	setKubeVirtVersion(t, c)
	permitDevices(t, c)
	awaitWebhookCalled(t, c)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"a VM without a lock":           testNoLockRequired,
		"no launcher":                   testNoLauncher,
		"a GPU and a host device":       testDevices,
		"reservedOverhead":              testReserved,
		"real time":                     testRealtime,
		"a migration has the same lock": testMigratedLock,
		"a migration has the VM's size": testMigratedSize,
		"two launchers":                 testTwoLaunchers,
		"sidecar and preStop":           testSidecar,
		"sidecar, by the namespace":     testSidecarOfNamespace,
		"larger values stay":            testBesideOthers,
	})
}

// awaitWebhookCalled returns when the API server calls the webhook for new pods.
func awaitWebhookCalled(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	object := c.VMI(t, c.Namespace(t, nil), "probe", small())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, GenerateName: "probe-",
			Labels: map[string]string{virtv1.AppLabel: "virt-launcher",
				virtv1.CreatedByLabel: string(object.UID)},
			Annotations: map[string]string{api.RequiresLockKey: "true"},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(object, virtv1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "compute", Image: "registry.test/x"}}},
	}
	eventually(t, "the API server to call the webhook", func() error {
		made := pod.DeepCopy()
		if err := c.Client.Create(t.Context(), made, client.DryRunAll); err != nil {
			return err
		}
		if made.Annotations[api.GuestMemoryKey] == "" {
			return fmt.Errorf("annotations %v", made.Annotations)
		}
		return nil
	})
}

// permitDevices adds the tests' devices to KubeVirt's permitted ones.
func permitDevices(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	kv := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: kubevirt.Namespace,
		Name: kubevirt.Name}}
	change(t, c, kv, func() {
		kv.Spec.Configuration.DeveloperConfiguration = &virtv1.DeveloperConfiguration{
			FeatureGates: []string{"HostDevices", "NUMA"}}
		kv.Spec.Configuration.PermittedHostDevices = &virtv1.PermittedHostDevices{
			PciHostDevices: []virtv1.PciHostDevice{{PCIVendorSelector: "10DE:1EB8",
				ResourceName: gpu, ExternalResourceProvider: true}},
		}
	})
}

// awaitLauncher returns the first launcher of a VM, running or not.
func awaitLauncher(
	t *testing.T, c *kubevirttest.Cluster, vmi *virtv1.VirtualMachineInstance,
) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, "a launcher of "+vmi.Name, func() error {
		all := c.Launchers(t, vmi)
		if len(all) == 0 {
			return fmt.Errorf("no launcher")
		}
		found = &all[0]
		return nil
	})
	return found
}

// launch makes a VM and returns its first launcher.
func launch(
	t *testing.T, c *kubevirttest.Cluster, ns string,
	change ...func(*virtv1.VirtualMachineInstance),
) (*virtv1.VirtualMachineInstance, *corev1.Pod) {
	t.Helper()
	object := kubevirttest.NewVMI(ns, "vm", small())
	for _, do := range change {
		do(object)
	}
	// Retry until KubeVirt has read the list of permitted devices.
	eventually(t, "VM to be made", func() error {
		return c.Client.Create(t.Context(), object.DeepCopy())
	})
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	return object, awaitLauncher(t, c, object)
}

// webhookAnnotations returns the annotations of a pod with keys written by the webhook.
func webhookAnnotations(pod *corev1.Pod) map[string]string {
	found := map[string]string{}
	for key, value := range pod.Annotations {
		if base, _, _ := strings.Cut(key, "/"); strings.HasSuffix(base, api.Suffix) ||
			base == "required-plugins.noderesource.dev" {
			found[key] = value
		}
	}
	return found
}

func testNoLockRequired(t *testing.T, c *kubevirttest.Cluster) {
	_, pod := launch(t, c, c.Namespace(t, nil))
	if got := webhookAnnotations(pod); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}

// testNoLauncher expects the webhook to leave other pods unchanged, with and without launcher
// labels.
func testNoLauncher(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	for _, labels := range []map[string]string{
		{virtv1.AppLabel: "virt-launcher", virtv1.CreatedByLabel: "x"}, nil} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "plain-", Labels: labels,
				Annotations: map[string]string{api.DevicesKey: "vfio=1"}},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "compute", Image: "registry.test/x"}}},
		}
		if err := c.Client.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if got := webhookAnnotations(pod); !cmp.Equal(got,
			map[string]string{api.DevicesKey: "vfio=1"}) {
			t.Errorf("got %v", got)
		}
	}
}

// wantLock checks that an agent's limit for the launcher is at least KubeVirt's.
func wantLock(t *testing.T, object *virtv1.VirtualMachineInstance, pod *corev1.Pod) {
	t.Helper()
	version, err := memlock.ParseVersion("1.7")
	if err != nil {
		t.Fatal(err)
	}
	vm, err := vmi.FromVMI(object)
	if err != nil {
		t.Fatal(err)
	}
	want, err := memlock.Limit(vm, version, memlock.Ratio{})
	if err != nil || !want.Required {
		t.Fatalf("%+v, %v", want, err)
	}
	if got := agentLock(t, pod, "amd64"); got == nil || int64(*got) < want.Bytes {
		t.Errorf("%v gives %v, want at least %d", webhookAnnotations(pod), got, want.Bytes)
	}
}

func testDevices(t *testing.T, c *kubevirttest.Cluster) {
	object, pod := launch(t, c, c.Namespace(t, nil), func(v *virtv1.VirtualMachineInstance) {
		v.Spec.Domain.Devices.GPUs = []virtv1.GPU{{Name: "gpu", DeviceName: gpu}}
		v.Spec.Domain.Devices.HostDevices = []virtv1.HostDevice{{Name: "device", DeviceName: gpu}}
	})
	if got := pod.Annotations[api.DevicesKey]; got != "vfio=2" {
		t.Errorf("devices %q, want vfio=2", got)
	}
	if got := pod.Annotations["required-plugins.noderesource.dev"]; got != `["mooring"]` {
		t.Errorf("required plugins %q", got)
	}
	wantLock(t, object, pod)
}

// KubeVirt 1.7 drops reservedOverhead in every spelling. Annotations with the same meaning stay.
func testReserved(t *testing.T, c *kubevirttest.Cluster) {
	object := kubevirttest.NewVMI(c.Namespace(t, nil), "vm", small())
	annotate(api.RequiresLockKey, "true", api.ValueKey, "3Gi")(object)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	vm, at := &unstructured.Unstructured{Object: content},
		[]string{"spec", "domain", "memory", "reservedOverhead"}
	vm.SetGroupVersionKind(virtv1.VirtualMachineInstanceGroupVersionKind)
	if err := unstructured.SetNestedMap(content, map[string]any{"requiresLock": "true",
		"value": "1Gi", "memLock": "Required"}, at...); err != nil {
		t.Fatal(err)
	}
	if err := c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if kept, ok, _ := unstructured.NestedMap(vm.Object, at...); ok {
		t.Errorf("KubeVirt kept %v: adapt this test", kept)
	}
	object.UID = vm.GetUID()
	pod := awaitLauncher(t, c, object)
	const largest = 4 << 30 // the maxGuest set by KubeVirt
	if got := agentLock(t, pod, "amd64"); got == nil || int64(*got) < largest+3<<30 ||
		int64(*got) > largest+4<<30 {
		t.Errorf("%v gives %v, want 7Gi and the overhead", webhookAnnotations(pod), got)
	}
}

func testRealtime(t *testing.T, c *kubevirttest.Cluster) {
	object, pod := launch(t, c, c.Namespace(t, nil), func(v *virtv1.VirtualMachineInstance) {
		v.Spec.Domain.CPU = &virtv1.CPU{
			Cores: 2, DedicatedCPUPlacement: true, Realtime: &virtv1.Realtime{},
			NUMA: &virtv1.NUMA{GuestMappingPassthrough: &virtv1.NUMAGuestMappingPassthrough{}},
		}
		v.Spec.Domain.Memory.Hugepages = &virtv1.Hugepages{PageSize: "2Mi"}
	})
	if got := pod.Annotations[api.RequiresLockKey]; got != "true" {
		t.Errorf("requires a lock: %q", got)
	}
	wantLock(t, object, pod)
}

func annotate(pairs ...string) func(*virtv1.VirtualMachineInstance) {
	return func(v *virtv1.VirtualMachineInstance) {
		v.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			v.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func testSidecar(t *testing.T, c *kubevirttest.Cluster) {
	object, pod := launch(t, c, c.Namespace(t, nil),
		annotate(api.InjectSidecarKey, "true", api.InjectPreStopKey, "true"))
	shim := pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
	if name, ok, err := api.Sidecar(pod.Annotations); !ok || err != nil || shim.Name != name ||
		shim.Image != "registry.test/mooring-shim:v1" {
		t.Errorf("sidecar %q, %v, and container %q of image %q", name, err, shim.Name, shim.Image)
	}
	if hook := pod.Spec.Containers[0].Lifecycle; hook == nil ||
		!cmp.Equal(hook.PreStop.Exec.Command, []string{"/run/mooring/hook", "prestop"}) {
		t.Errorf("preStop %+v", hook)
	}
	if got := *pod.Spec.TerminationGracePeriodSeconds; got != 90 {
		t.Errorf("grace period of %ds, want 90", got)
	}
	if agentLock(t, pod, "amd64") != nil {
		t.Errorf("a lock by %v", webhookAnnotations(pod))
	}
	c.AwaitRunning(t, object) // virt-controller accepts the pod
}

func testSidecarOfNamespace(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	change(t, c, object, func() {
		object.Annotations = map[string]string{api.InjectSidecarKey: "true"}
	})
	_, pod := launch(t, c, ns)
	if _, ok, err := api.Sidecar(pod.Annotations); !ok || err != nil {
		t.Errorf("%v, %v", webhookAnnotations(pod), err)
	}
}

// testBesideOthers sets annotations on the VM. The webhook raises values below its own, and lowers
// none.
func testBesideOthers(t *testing.T, c *kubevirttest.Cluster) {
	_, pod := launch(t, c, c.Namespace(t, nil), annotate(
		api.RequiresLockKey, "true", api.GuestMemoryKey, "1Mi", api.ValueKey, "7Gi",
		"required-plugins.noderesource.dev", "[other]"))
	got, err := api.Parse(pod.Annotations, "compute")
	if err != nil {
		t.Fatal(err)
	}
	if *got.GuestMemory < 1<<30 || got.Value.Bytes < 7<<30 ||
		pod.Annotations["required-plugins.noderesource.dev"] != `["other","mooring"]` {
		t.Errorf("got %v", webhookAnnotations(pod))
	}
}
