package actor

import (
	"context"
	"hash/fnv"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// kubelet reports a bound pod as running and ready. It removes a deleted pod at once, regardless of
// its grace period.
type kubelet struct {
	api      client.Client
	accounts map[string]client.Client // its keys are the nodes

	everywhere bool // acts on all nodes
}

// Reconcile implements reconcile.Reconciler.
func (k *kubelet) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := k.api.Get(ctx, r.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	_, kept := pod.Annotations[Keep]
	switch {
	case pod.Spec.NodeName == "":
		return reconcile.Result{}, nil
	case k.accounts[pod.Spec.NodeName] == nil && !k.everywhere:
		return reconcile.Result{}, nil
	case pod.DeletionTimestamp != nil && !kept:
		gone := []client.DeleteOption{client.GracePeriodSeconds(0),
			client.Preconditions{UID: &pod.UID}}
		return reconcile.Result{}, ignoreRace(k.api.Delete(ctx, pod, gone...))
	case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending:
		pod.Status = running(pod)
		return reconcile.Result{}, ignoreRace(k.api.Status().Update(ctx, pod))
	}
	return reconcile.Result{}, nil
}

func running(pod *corev1.Pod) corev1.PodStatus {
	now, ip := metav1.Now(), podIP(pod)
	s := *pod.Status.DeepCopy()
	s.Phase, s.StartTime = corev1.PodRunning, &now
	s.HostIP, s.PodIP, s.PodIPs = "192.0.2.1", ip, []corev1.PodIP{{IP: ip}}
	s.Conditions = nil
	for _, t := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized,
		corev1.ContainersReady, corev1.PodReady} {
		s.Conditions = append(s.Conditions,
			corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	s.ContainerStatuses, s.InitContainerStatuses = nil, nil
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(c, runs))
	}
	for _, c := range pod.Spec.InitContainers {
		state := completed(now)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			state = runs
		}
		s.InitContainerStatuses = append(s.InitContainerStatuses, containerStatus(c, state))
	}
	return s
}

func containerStatus(c corev1.Container, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: "sha256:0", State: state,
		Ready: true, Started: new(state.Running != nil),
		// required for a resize of the pod
		Resources: c.Resources.DeepCopy(), AllocatedResources: c.Resources.Requests,
	}
}

func completed(at metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: at, FinishedAt: at,
	}}
}

// podIP derives a stable address from the UID.
func podIP(pod *corev1.Pod) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pod.UID))
	sum := h.Sum(nil)
	return netip.AddrFrom4([4]byte{10, sum[0], sum[1], sum[2]}).String()
}

// end reports that the launcher in a pod has exited with success.
func end(ctx context.Context, api client.Client, pod *corev1.Pod) error {
	if _, kept := pod.Annotations[Keep]; kept || ended(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	before, now := pod.DeepCopy(), metav1.Now()
	pod.Status.Phase = corev1.PodSucceeded
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady ||
			c.Type == corev1.ContainersReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionFalse, "PodCompleted", now
		}
	}
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		s.State, s.Ready, s.Started = completed(now), false, new(false)
	}
	return ignoreRace(api.Status().Patch(ctx, pod,
		client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// ignoreRace drops errors about concurrent changes. Such a change triggers another reconcile.
func ignoreRace(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
