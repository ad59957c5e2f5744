package kube

import (
	"context"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record/util"
)

// Group and kind of KubeVirt's running VMs.
const (
	kubevirtGroup = "kubevirt.io"
	instanceKind  = "VirtualMachineInstance"
)

// Instance returns the VirtualMachineInstance that controls a pod. ok is false if the cache lacks
// the pod, or the pod has no such controller. It never blocks on I/O.
func (c *PodCache) Instance(podUID string) (instance corev1.ObjectReference, ok bool) {
	pod, known := c.find(podUID)
	if !known || pod == nil {
		return instance, false
	}
	owner := instanceOwner(pod)
	if owner == nil {
		return instance, false
	}
	return corev1.ObjectReference{Kind: owner.Kind, APIVersion: owner.APIVersion,
		Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID}, true
}

// instanceOwner returns the pod's controller if it is a VirtualMachineInstance, or nil.
func instanceOwner(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != instanceKind {
		return nil
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil ||
		gv.Group != kubevirtGroup {
		return nil
	}
	return owner
}

// copyToInstance writes a warning about a launcher also on its VirtualMachineInstance, where the
// VM's owner looks. A repetition counts on the pod's Event only.
func (r *Recorder) copyToInstance(ctx context.Context, key seriesKey, event *eventsv1.Event) {
	if event.Type != corev1.EventTypeWarning || r.instance == nil {
		return
	}
	instance, ok := r.instance(key.pod.UID)
	if !ok {
		return
	}
	copied := event.DeepCopy()
	copied.ObjectMeta = metav1.ObjectMeta{Namespace: event.Namespace,
		Name: util.GenerateEventName(instance.Name, r.stamp()), Annotations: event.Annotations}
	copied.Regarding, copied.Related = instance, &event.Regarding
	err := persist(ctx, func(ctx context.Context) error {
		_, err := r.sink.Create(ctx, copied)
		return err
	})
	if err != nil {
		r.logger.WarnContext(ctx, "writing a Kubernetes Event on a VirtualMachineInstance failed",
			slog.String("reason", event.Reason), slog.String("instance",
				instance.Namespace+"/"+instance.Name), slog.Any("error", err))
	}
}
