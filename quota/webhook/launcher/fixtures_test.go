package launcher

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/quota/virt"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// cluster is a cluster with KubeVirt of a version.
func cluster(version string) virt.Cluster {
	v, err := kubevirt.ParseVersion(version)
	if err != nil {
		panic(err)
	}
	return virt.Cluster{Namespace: "kubevirt", Version: v,
		Configuration: &kubevirtv1.KubeVirtConfiguration{}}
}

// newVMI is a VM of 2 GiB and two vCPUs in a cluster. It needs no memory lock.
func newVMI(change ...func(*kubevirtv1.VirtualMachineInstance)) *kubevirtv1.VirtualMachineInstance {
	guest := resource.MustParse("2Gi")
	vmi := &kubevirtv1.VirtualMachineInstance{
		TypeMeta: metav1.TypeMeta{APIVersion: kubevirtv1.GroupVersion.String(),
			Kind: "VirtualMachineInstance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm", UID: "vmi-uid"},
	}
	vmi.Spec.Architecture = "amd64"
	vmi.Spec.Domain.CPU = &kubevirtv1.CPU{Sockets: 1, Cores: 2, Threads: 1}
	vmi.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: &guest}
	vmi.Spec.Domain.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: guest}
	vmi.Status.NodeName = "node-1"
	for _, do := range change {
		do(vmi)
	}
	return vmi
}

func withGPUs(n int) func(*kubevirtv1.VirtualMachineInstance) {
	return func(vmi *kubevirtv1.VirtualMachineInstance) {
		vmi.Spec.Domain.Devices.GPUs = make([]kubevirtv1.GPU, n)
	}
}

// newPod is a launcher pod as created by KubeVirt.
func newPod(annotations map[string]string) *corev1.Pod {
	vmi, user := newVMI(), int64(107)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "vms", GenerateName: "virt-launcher-vm-",
			Labels: map[string]string{kubevirtv1.AppLabel: "virt-launcher",
				kubevirtv1.CreatedByLabel: "vmi-uid"},
			Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(vmi, kubevirtv1.VirtualMachineInstanceGroupVersionKind)},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(60)),
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user,
				FSGroup: &user},
			Volumes: []corev1.Volume{{Name: "libvirt-runtime",
				VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			InitContainers: []corev1.Container{{Name: "guest-console-log"}},
			Containers: []corev1.Container{{
				Name: "compute", Resources: resources("200m", "2300Mi", "2", "3Gi"),
				SecurityContext: &corev1.SecurityContext{RunAsUser: &user, RunAsGroup: &user,
					RunAsNonRoot: new(true)},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "private", MountPath: "/var/run/kubevirt-private"},
					{Name: "libvirt-runtime", MountPath: "/var/run/libvirt"}},
			}},
		},
	}
}

func resources(
	requestCPU, requestMemory, limitCPU, limitMemory string,
) corev1.ResourceRequirements {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory)}
	}
	return corev1.ResourceRequirements{Requests: list(requestCPU, requestMemory),
		Limits: list(limitCPU, limitMemory)}
}

// newTarget is a migration target.
func newTarget(annotations map[string]string) *corev1.Pod {
	pod := newPod(annotations)
	pod.Labels[kubevirtv1.MigrationJobLabel] = "migration-uid"
	return pod
}

func input(pod *corev1.Pod, vmi *kubevirtv1.VirtualMachineInstance) Input {
	return Input{Pod: pod, VMI: vmi, Cluster: cluster("1.7"),
		Shim: Shim{Image: "registry.example.org/mooring-shim:v1"}}
}

// mutated returns the mutated pod and expects no warning and no change in a second pass.
func mutated(t testing.TB, in Input) *corev1.Pod {
	t.Helper()
	out, err := Mutate(in)
	if err != nil || len(out.Warnings) > 0 {
		t.Fatalf("%v, warnings %q", err, out.Warnings)
	}
	if out.Pod == nil {
		return in.Pod
	}
	in.Pod = out.Pod
	if again, err := Mutate(in); err != nil || again.Pod != nil {
		t.Fatalf("a second pass made of\n%s\nthis:\n%s, %v", asJSON(t, out.Pod),
			asJSON(t, again.Pod), err)
	}
	return out.Pod
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
