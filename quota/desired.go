package quota

import corev1 "k8s.io/api/core/v1"

// Desired is what spec.hard has to be, for each resource of the base and no other:
//
//	base + what is reserved beyond the share that the base itself sets aside for migrations
func Desired(base, reserved, share corev1.ResourceList) corev1.ResourceList {
	beyond := positive(minus(reserved, share))
	out := base.DeepCopy()
	for name, q := range out {
		if more, ok := beyond[name]; ok {
			q.Add(more)
			out[name] = q
		}
	}
	return out
}
