package suite

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mooring-vm/mooring/integration/cri"
)

// kubernetesContainer converts a container into the form of a pod's spec, with its volumes.
func kubernetesContainer(c cri.Container) (corev1.Container, []corev1.Volume) {
	k := corev1.Container{
		Name: c.Name, Image: "localhost/busybox:1", ImagePullPolicy: corev1.PullNever,
		Command:         c.Args,
		SecurityContext: &corev1.SecurityContext{RunAsUser: &c.User, RunAsGroup: &c.User},
	}
	var volumes []corev1.Volume
	add := func(at, path string, readOnly bool) {
		name := strings.ToLower(fmt.Sprintf("%s-%d", c.Name, len(volumes)))
		source := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
		k.VolumeMounts = append(k.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at,
			ReadOnly: readOnly})
	}
	for at, path := range c.Mounts {
		add(at, path, true)
	}
	for at, path := range c.Shared {
		add(at, path, false)
	}
	return k, volumes
}

// limited sets limits of a container, and constant requests.
func limited(c corev1.Container, cpu, memory string) corev1.Container {
	c.Resources = corev1.ResourceRequirements{Limits: limitsOf(cpu, memory),
		Requests: limitsOf("100m", "64Mi")}
	return c
}

func limitsOf(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory)}
}

// createPod creates a pod with a launcher and its sidecar, and waits until kubelet runs the
// launcher.
func (c cluster) createPod(t *testing.T, p cri.Pod, launcher, sidecar corev1.Container,
	volumes []corev1.Volume) *vm {
	t.Helper()
	sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	launcher.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{preStop, "prestop"}}}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: p.Labels, Annotations: p.Annotations},
		Spec: corev1.PodSpec{
			NodeName: nodeName, HostNetwork: true, AutomountServiceAccountToken: ptr.To(false),
			TerminationGracePeriodSeconds: ptr.To(int64(180)),
			InitContainers:                []corev1.Container{sidecar},
			Containers:                    []corev1.Container{launcher}, Volumes: volumes,
		},
	}
	return c.runPod(t, pod, p, launcher.Name)
}

// runPod creates a pod, and waits until kubelet runs its launcher.
func (c cluster) runPod(t *testing.T, pod *corev1.Pod, p cri.Pod, launcher string) *vm {
	t.Helper()
	created, err := c.CoreV1().Pods(p.Namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := &vm{placement: placements()[0], pod: p}
	v.pod.UID = string(created.UID)
	t.Cleanup(func() { c.forceDeletePod(t, v) })
	v.launcher = c.cri.Adopt(v.pod, launcher, c.awaitRunning(t, v.pod, launcher))
	pid, err := v.launcher.Pid(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v.launcherProcess, err = c.processOf(t.Context(), pid); err != nil {
		t.Fatal(err)
	}
	return v
}

// awaitRunning waits until a container runs, and returns its ID.
func (c cluster) awaitRunning(t *testing.T, p cri.Pod, name string) (id string) {
	t.Helper()
	within(t, 2*waitTimeout, "container "+name+" to run", func() bool {
		for _, s := range c.pod(t, p).Status.ContainerStatuses {
			if s.Name == name && s.State.Running != nil {
				_, id, _ = strings.Cut(s.ContainerID, "://")
			}
		}
		return id != ""
	}, func() string { return c.describePod(t, p) })
	return id
}

func (c cluster) pod(t *testing.T, p cri.Pod) *corev1.Pod {
	t.Helper()
	pod, err := c.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// describePod returns status and Events of a pod, for messages.
func (c cluster) describePod(t *testing.T, p cri.Pod) string {
	t.Helper()
	pod := c.pod(t, p)
	text := fmt.Sprintf("%s %v\n", pod.Status.Phase, pod.Status.Conditions)
	events, err := c.CoreV1().Events(p.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		text += fmt.Sprintf("%s %s: %s\n", e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return text
}

// resizePod changes the launcher's limits in place.
func (c cluster) resizePod(t *testing.T, v *vm, cpu, memory string) {
	t.Helper()
	patch := fmt.Sprintf(
		`{"spec":{"containers":[{"name":%q,"resources":{"limits":{"cpu":%q,"memory":%q}}}]}}`,
		v.launcher.Name, cpu, memory)
	_, err := c.CoreV1().Pods(v.pod.Namespace).Patch(t.Context(), v.pod.Name,
		types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	if err != nil {
		t.Fatal(err)
	}
}

// awaitActual waits until the pod's status has the launcher's new limits and no pending resize.
func (c cluster) awaitActual(t *testing.T, v *vm, cpu, memory string) {
	t.Helper()
	want := limitsOf(cpu, memory)
	within(t, 4*waitTimeout, "the launcher to have "+memory, func() bool {
		pod := c.pod(t, v.pod)
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodResizePending ||
				condition.Type == corev1.PodResizeInProgress {
				return false
			}
		}
		for _, s := range pod.Status.ContainerStatuses {
			if s.Name == v.launcher.Name && s.Resources != nil {
				has := s.Resources.Limits
				return has.Memory().Equal(*want.Memory()) && has.Cpu().Equal(*want.Cpu()) &&
					s.RestartCount == 0
			}
		}
		return false
	}, func() string { return c.describePod(t, v.pod) })
}

// forceDeletePod removes a pod that still exists at the end of its test.
func (c cluster) forceDeletePod(t *testing.T, v *vm) {
	ctx := cleanUpContext(t)
	_ = c.CoreV1().Pods(v.pod.Namespace).Delete(ctx, v.pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(1))})
	for range 100 {
		if _, err := c.CoreV1().Pods(v.pod.Namespace).Get(ctx, v.pod.Name,
			metav1.GetOptions{}); err != nil {
			return
		}
		if _, err := c.Output(ctx, "sleep", "0.3"); err != nil {
			return
		}
	}
	t.Errorf("pod %s still exists", v.pod.Name)
}
