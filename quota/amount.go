package quota

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// add adds b to a in place.
func add(a, b corev1.ResourceList) {
	for name, q := range b {
		sum := a[name].DeepCopy()
		sum.Add(q)
		a[name] = sum
	}
}

// minus returns a - b for the resources of a.
func minus(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	for name, q := range b {
		if left, ok := out[name]; ok {
			left.Sub(q)
			out[name] = left
		}
	}
	return out
}

// Max returns the larger amount of a and b for each resource.
func Max(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	if out == nil {
		out = corev1.ResourceList{}
	}
	for name, q := range b {
		if now, ok := out[name]; !ok || q.Cmp(now) > 0 {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// positive returns the amounts above zero.
func positive(a corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range a {
		if q.Sign() > 0 {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// equalLists reports whether two lists have the same resources and amounts.
func equalLists(a, b corev1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		if other, ok := b[name]; !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// names returns the sorted resource names of a list.
func names(a corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(a))
	for name := range a {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// FormatAmounts formats amounts for people, such as "limits.cpu=2, limits.memory=4Gi".
func FormatAmounts(a corev1.ResourceList) string {
	if len(a) == 0 {
		return "nothing"
	}
	parts := make([]string, 0, len(a))
	for _, name := range names(a) {
		parts = append(parts, string(name)+"="+AtLeast(name, a[name]))
	}
	return strings.Join(parts, ", ")
}
