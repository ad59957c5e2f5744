package quota

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// Annotations of a raised ResourceQuota, each a JSON object of quantities. One write sets them
// together with spec.hard. The controller removes them with the last reservation.
const (
	// BaseAnnotation holds the quota's amounts without reservations.
	BaseAnnotation = "base.quota" + api.Suffix
	// AppliedAnnotation holds the spec.hard set by the controller. A different spec.hard
	// means that another client has edited it.
	AppliedAnnotation = "applied.quota" + api.Suffix
	// OverrunAnnotation holds the use above the base at the time of the base, see [Desired]. It is
	// missing while no reservation needs room for a whole pod.
	OverrunAnnotation = "overrun.quota" + api.Suffix
)

// Base returns the amounts that a quota had before Mooring added reservations, for each resource of
// its spec.hard. For each resource the first matching source counts:
//
//   - the namespace annotation of the quota manager, for the quota with the manager's label;
//   - spec.hard of a quota to which Mooring has added nothing;
//   - the saved base, if spec.hard equals the applied value or the base itself;
//   - spec.hard, edited or extended by an administrator.
//
// An unreadable annotation is an error that wraps an [*api.InvalidError].
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

// savedBase returns the base from the quota's own annotations.
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

// raised reports whether the quota has the annotations of a raised quota.
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
		return nil, &api.InvalidError{
			Key: key, Value: text,
			Allowed: `want a JSON object of quantities, such as {"limits.cpu":"4"}`,
		}
	}
	list := corev1.ResourceList{}
	for name, value := range raw {
		q, err := parseQuantity(value)
		if err != nil {
			return nil, &api.InvalidError{Key: key, Value: text,
				Allowed: fmt.Sprintf("%.80s: %v", name, err)}
		}
		list[name] = q
	}
	return list, nil
}

func parseQuantity(text string) (resource.Quantity, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return q, fmt.Errorf("%.80q is no quantity: want one such as 4, 500m or 8Gi", text)
	}
	if q.Sign() < 0 {
		return q, fmt.Errorf("%.80q is negative: want 0 or more", text)
	}
	return q, nil
}

// formatList is the inverse of parseList.
func formatList(list corev1.ResourceList) string {
	text := make(map[corev1.ResourceName]string, len(list))
	for name, q := range list {
		text[name] = q.String()
	}
	out, _ := json.Marshal(text) // strings alone: cannot fail
	return string(out)
}
