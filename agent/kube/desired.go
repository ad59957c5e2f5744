package kube

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
)

// FindLauncher returns the container of a pod that runs a VM; ok is false for other pods. It is
// pure.
type FindLauncher func(labels, annotations map[string]string) (container string, ok bool)

// Desired returns the desired state of the VM of a launcher pod, from the pod's current object: its
// limits, and the size that the annotations ask for, for the named container. It is false for other
// pods and for unknown ones. podUID is the UID in the container runtime. Desired never blocks on
// I/O.
func (c *PodCache) Desired(podUID, container string) (podapi.Desired, bool) {
	pod, ok := c.find(podUID)
	if !ok || c.findLauncher == nil {
		return podapi.Desired{}, false
	}
	name, ok := c.findLauncher(pod.Labels, pod.Annotations)
	if !ok {
		return podapi.Desired{}, false
	}
	d := podapi.Desired{Launcher: container}
	var err error
	if d.Size, err = api.ParseSize(pod.Annotations, container); err != nil {
		d.Error = err.Error()
	}
	if pod.Spec.Resources != nil {
		d.Pod = limitsOf(pod.Spec.Resources.Limits)
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == name {
			d.Limits = limitsOf(container.Resources.Limits)
		}
	}
	return d, true
}

func limitsOf(list corev1.ResourceList) podapi.Limits {
	return podapi.Limits{Memory: list.Memory().Value(), CPU: list.Cpu().MilliValue()}
}

// TrackLaunchers makes the cache keep the data of [PodCache.Desired] for pods with a VM. Call it
// before Run.
func (c *PodCache) TrackLaunchers(launchers FindLauncher) { c.findLauncher = launchers }

// withDesired returns a transform that keeps more of a pod than the given one. It accepts its own
// results.
func (c *PodCache) withDesired(transform cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		kept, err := transform(obj)
		pod, ok := obj.(*corev1.Pod)
		if err == nil && ok {
			c.keepDesired(kept.(*corev1.Pod), pod)
		}
		return kept, err
	}
}

// keepDesired keeps the data of Desired for launcher pods: labels, Mooring's annotations and the
// limits of the launcher.
func (c *PodCache) keepDesired(kept, pod *corev1.Pod) {
	if c.findLauncher == nil {
		return
	}
	name, ok := c.findLauncher(pod.Labels, pod.Annotations)
	if !ok {
		return
	}
	kept.Labels = pod.Labels
	ours := map[string]string{}
	for key, value := range pod.Annotations {
		if api.Relevant(map[string]string{key: ""}) {
			ours[key] = value
		}
	}
	maps.Copy(ours, kept.Annotations)
	kept.Annotations = ours
	if pod.Spec.Resources != nil {
		kept.Spec.Resources = &corev1.ResourceRequirements{Limits: pod.Spec.Resources.Limits}
	}
	for _, container := range pod.Spec.Containers {
		if container.Name == name {
			kept.Spec.Containers = []corev1.Container{{
				Name:      name,
				Resources: corev1.ResourceRequirements{Limits: container.Resources.Limits},
			}}
		}
	}
}
