package quota

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Growth is the charge of a target pod beyond that of its source pod.
type Growth struct {
	VMI     v1alpha1.Reference
	Amounts corev1.ResourceList // of resources limited by quotas
}

// growth returns the charge of a reservation beyond that of the source pod; nil without a source.
func (p *planner) growth(r *v1alpha1.MigrationReservation, source *corev1.Pod) *Growth {
	if source == nil {
		return nil
	}
	beyond := minus(total(r), sumOf(p.pods.family(source).reservedPods()))
	return &Growth{VMI: r.Spec.VMI, Amounts: p.limitedByQuotas(positive(beyond))}
}

// Causes returns a text about the causes of growth, from estimates of the launcher at the guest's
// present size and at the size in the spec of its instance. Users ask for the difference of the
// two. The rest is overhead, as of a newer KubeVirt.
func (g Growth) Causes(present, spec corev1.ResourceList) string {
	user := restrictTo(positive(minus(spec, present)), g.Amounts)
	for name, q := range user {
		user[name] = smaller(q, g.Amounts[name])
	}
	var parts []string
	if len(user) > 0 {
		parts = append(parts, FormatAmounts(user)+" for the larger size of VM "+g.VMI.Name)
	}
	if rest := positive(minus(g.Amounts, user)); len(rest) > 0 {
		parts = append(parts, FormatAmounts(rest)+" for overhead")
	}
	return strings.Join(parts, ", ")
}
