package verify

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload is the readiness of a DaemonSet or Deployment. Ready counts only pods of the present
// version.
type Workload struct {
	Kind, Namespace, Name string
	Version, Image        string // of the chart; of the first container
	Ready, Desired        int32

	unseen bool // the status is that of an older version
}

// DaemonSet returns the readiness of a DaemonSet.
func DaemonSet(set *appsv1.DaemonSet) Workload {
	w := workload("DaemonSet", &set.ObjectMeta, &set.Spec.Template)
	w.Ready = min(set.Status.NumberReady, set.Status.UpdatedNumberScheduled)
	w.Desired = set.Status.DesiredNumberScheduled
	w.unseen = set.Status.ObservedGeneration < set.Generation
	return w
}

// Deployment returns the readiness of a Deployment.
func Deployment(d *appsv1.Deployment) Workload {
	w := workload("Deployment", &d.ObjectMeta, &d.Spec.Template)
	w.Ready = min(d.Status.ReadyReplicas, d.Status.UpdatedReplicas)
	w.Desired = 1
	if d.Spec.Replicas != nil {
		w.Desired = *d.Spec.Replicas
	}
	w.unseen = d.Status.ObservedGeneration < d.Generation
	return w
}

func workload(kind string, object *metav1.ObjectMeta, pods *corev1.PodTemplateSpec) Workload {
	w := Workload{Kind: kind, Namespace: object.Namespace, Name: object.Name,
		Version: object.Labels["app.kubernetes.io/version"]}
	if len(pods.Spec.Containers) > 0 {
		w.Image = pods.Spec.Containers[0].Image
	}
	return w
}

// Problem returns nil if all pods are ready.
func (w Workload) Problem() error {
	pods, none := "nodes have a ready pod", "no node is selected"
	if w.Kind == "Deployment" {
		pods, none = "replicas are ready", "it has 0 replicas"
	}
	switch {
	case w.unseen:
		return errors.New("no status of its present version yet")
	case w.Desired == 0:
		return errors.New(none)
	case w.Ready < w.Desired:
		return fmt.Errorf("%d of %d %s", w.Ready, w.Desired, pods)
	}
	return nil
}

// problem returns the problem with the name of the workload.
func (w Workload) problem() error {
	if err := w.Problem(); err != nil {
		return fmt.Errorf("%s %s: %w", w.Kind, w.Name, err)
	}
	return nil
}
