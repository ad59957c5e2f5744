package quota

import (
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api"
)

const (
	// ProbeLabel marks the pod of [Probe].
	ProbeLabel = "probe.quota" + api.Suffix

	// ReasonGuarded is the reason of the webhook's refusal of a [Probe]. No other part of an API
	// server uses it.
	ReasonGuarded metav1.StatusReason = "MooringGuard"
)

// Probe returns a pod for a dry run. The webhook for pods refuses it with [ReasonGuarded], and so
// proves that the API server calls the webhook in this namespace. The pod meets the pod security
// standard "restricted", so other admission plugins let it reach the webhook.
func Probe(namespace string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, GenerateName: "mooring-guard-probe-",
			Labels: map[string]string{ProbeLabel: "true"},
		},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(bool),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:   new(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "probe", Image: "mooring.invalid/probe",
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(bool),
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// IsProof reports whether the API server's answer to a [Probe] is the refusal by the webhook.
func IsProof(answer error) bool { return apierrors.ReasonForError(answer) == ReasonGuarded }
