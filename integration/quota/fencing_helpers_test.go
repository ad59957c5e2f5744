package quota

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// launcherOn returns a launcher pod that is not KubeVirt's, bound to a node unless node is empty.
func launcherOn(namespace, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "launcher-",
			Labels:      map[string]string{"app": "launcher"},
			Annotations: map[string]string{api.LauncherKey: "compute"}},
		Spec: corev1.PodSpec{NodeName: node,
			Containers:  []corev1.Container{{Name: "compute", Image: "registry.test/launcher"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
}

// statefulSet returns a StatefulSet of one such pod.
func statefulSet(pod *corev1.Pod) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "vm"},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), ServiceName: "vm",
			Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations},
				Spec:       pod.Spec}},
	}
}

// deadNode returns a node that is not ready and takes no other pods.
func (f *fencingTest) deadNode(t *testing.T) *corev1.Node {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "dead-"},
		Spec: corev1.NodeSpec{Unschedulable: true}}
	if err := f.c.Client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, f.c, n) })
	return n
}

// awaitRunning refreshes a pod, and returns when kubelet's actor has reported that it runs.
func (f *fencingTest) awaitRunning(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "pod "+pod.Name+" to run", func() error {
		if err := f.c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return nil
	})
}

// endContainers reports in place of kubelet that a deleted pod has ended.
func (f *fencingTest) endContainers(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "kubelet's report", func() error {
		err := f.c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		pod.Status.Phase = corev1.PodFailed
		for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses,
			pod.Status.ContainerStatuses} {
			for i := range list {
				list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 137, Reason: "Error", FinishedAt: metav1.Now()}}
				list[i].Ready, list[i].Started = false, new(false)
			}
		}
		return f.c.Client.Status().Update(t.Context(), pod)
	})
}

func statesClient(t *testing.T, c *kubevirttest.Cluster) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	states, err := client.New(c.Plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// agentReports writes the agent's report about a pod.
func (f *fencingTest) agentReports(t *testing.T, pod *corev1.Pod, ended bool) {
	t.Helper()
	n := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}
	err := f.states.Create(t.Context(), n)
	switch {
	case apierrors.IsAlreadyExists(err):
		err = f.states.Get(t.Context(), client.ObjectKeyFromObject(n), n)
	case err == nil:
		t.Cleanup(func() {
			if err := f.states.Delete(context.WithoutCancel(t.Context()), n); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	n.Status.HeartbeatTime = metav1.Now()
	report := v1alpha1.DeletedPodReport{Ended: ended, Pod: v1alpha1.PodReport{
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}}
	if !ended {
		report.Reason = "VM process 7 (qemu-kvm) is Running"
	}
	n.Status.DeletedPods = []v1alpha1.DeletedPodReport{report}
	if err := f.states.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}
