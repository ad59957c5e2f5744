package resizevm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pinsCPUs reports whether kubelet would refuse other CPU resources: the pod is Guaranteed, and the
// node has a static CPU manager. KubeVirt labels these nodes.
func (d *decision) pinsCPUs() bool {
	falls := d.desired.VCPUs != 0 && ofVCPUs.falls(d.accepted, d.sized)
	return d.StaticCPUs && d.guaranteed() && (falls || ofVCPUs.rises(d.accepted, d.sized))
}

// readStaticCPUs reads from the API server whether a node of a live Guaranteed launcher has a static
// CPU manager. For other launchers the CPU manager does not matter.
func (r *Reconciler) readStaticCPUs(ctx context.Context, in *Input) error {
	for _, pod := range in.Pods {
		if !isLive(pod) || pod.Spec.NodeName == "" || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
			continue
		}
		node := &metav1.PartialObjectMetadata{}
		node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		err := r.Live.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading node %s: %w", pod.Spec.NodeName, err)
		}
		for _, label := range []string{kubevirtv1.CPUManager, kubevirtv1.DeprecatedCPUManager} {
			in.StaticCPUs = in.StaticCPUs || node.Labels[label] == "true"
		}
	}
	return nil
}
