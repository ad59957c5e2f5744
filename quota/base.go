package quota

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// Annotations of a ResourceQuota that is raised, both a JSON object of quantities. They are
// written in one write with spec.hard, and taken away when nothing is reserved any more.
const (
	// BaseAnnotation is what the quota allows apart from reservations.
	BaseAnnotation = "base.quota" + api.Suffix
	// AppliedAnnotation is what spec.hard was set to. Another spec.hard is somebody's edit.
	AppliedAnnotation = "applied.quota" + api.Suffix
)

// Base returns what a quota allows apart from reservations, for each resource of its
// spec.hard. In this order:
//
//   - what the manager of quotas says, in the namespace's annotation, for the quota with
//     the manager's label;
//   - spec.hard, where the quota is not raised;
//   - the saved base, where spec.hard is what was applied, or has been reset to the base;
//   - spec.hard: an administrator has edited it, or added the resource.
//
// An annotation that cannot be read is an error, an [*api.InvalidError] inside.
func Base(q *corev1.ResourceQuota, ns *corev1.Namespace, o Options) (corev1.ResourceList, error) {
	base, err := savedBase(q)
	if err != nil {
		return nil, fmt.Errorf("ResourceQuota %s: %w", q.Name, err)
	}
	managed, err := managedBase(q, ns, o.WithDefaults())
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", ns.Name, err)
	}
	for name := range base {
		if limit, ok := managed[name]; ok {
			base[name] = limit
		}
	}
	return base, nil
}

// savedBase is the base as the quota alone tells it.
func savedBase(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	saved, err := parseList(BaseAnnotation, q.Annotations)
	if err != nil {
		return nil, err
	}
	applied, err := parseList(AppliedAnnotation, q.Annotations)
	if err != nil {
		return nil, err
	}
	base := corev1.ResourceList{}
	for name, hard := range q.Spec.Hard {
		base[name] = hard.DeepCopy()
		was, known := saved[name]
		if set, ok := applied[name]; known && ok && set.Cmp(hard) == 0 {
			base[name] = was
		}
	}
	return base, nil
}

// raised says whether a quota has annotations of ours.
func raised(q *corev1.ResourceQuota) bool {
	return q.Annotations[BaseAnnotation] != "" || q.Annotations[AppliedAnnotation] != ""
}

func parseList(key string, annotations map[string]string) (corev1.ResourceList, error) {
	text := annotations[key]
	if text == "" {
		return nil, nil
	}
	var raw map[corev1.ResourceName]string
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, &api.InvalidError{Key: key, Value: text, Allowed: `want a JSON object of quantities, as {"limits.cpu":"4"}`}
	}
	list := corev1.ResourceList{}
	for name, value := range raw {
		q, err := parseQuantity(value)
		if err != nil {
			return nil, &api.InvalidError{Key: key, Value: text, Allowed: fmt.Sprintf("%.80s: %v", name, err)}
		}
		list[name] = q
	}
	return list, nil
}

func parseQuantity(text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return q, fmt.Errorf("%.80q is no quantity: want one as 4, 500m or 8Gi", text)
	}
	if q.Sign() < 0 {
		return q, fmt.Errorf("%.80q is negative: want 0 or more", text)
	}
	return q, nil
}

// formatList is what parseList reads.
func formatList(list corev1.ResourceList) string {
	text := make(map[corev1.ResourceName]string, len(list))
	for name, q := range list {
		text[name] = q.String()
	}
	out, _ := json.Marshal(text) // strings alone: cannot fail
	return string(out)
}
