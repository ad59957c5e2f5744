package quota

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mooring-vm/mooring/api"
)

const (
	// FieldManager is the field manager of the controller's writes of quotas. Deployment tools can
	// ignore differences in its fields.
	FieldManager = "mooring-controller"

	// OwnersAnnotation of a raised quota holds the owners of its limits in managedFields. A raise
	// makes the controller the only owner of the raised limits. After the last reservation it gives
	// them back, because a deployment tool can remove only its own limits.
	OwnersAnnotation = "owners.quota" + api.Suffix
)

// owners are the sorted limits of each field manager, by operation and manager.
type owners map[metav1.ManagedFieldsOperationType]map[string][]corev1.ResourceName

func (o owners) add(
	operation metav1.ManagedFieldsOperationType, manager string, limit corev1.ResourceName,
) {
	if o[operation] == nil {
		o[operation] = map[string][]corev1.ResourceName{}
	}
	limits := o[operation][manager]
	if at, has := slices.BinarySearch(limits, limit); !has {
		o[operation][manager] = slices.Insert(limits, at, limit)
	}
}

// owners returns the present owners of limits except the controller, and the recorded owners of
// limits that nobody has edited after the last raise.
func (a Account) owners() owners {
	out := presentOwners(a.Quota)
	var recorded owners
	if json.Unmarshal([]byte(a.Quota.Annotations[OwnersAnnotation]), &recorded) != nil {
		return out // ignores an unreadable record
	}
	for operation, managers := range recorded {
		for manager, limits := range managers {
			for _, limit := range limits {
				if unedited(a.Quota, limit) {
					out.add(operation, manager, limit)
				}
			}
		}
	}
	return out
}

// presentOwners returns the owners in managedFields, except the controller.
func presentOwners(q *corev1.ResourceQuota) owners {
	out := owners{}
	for _, e := range q.ManagedFields {
		if e.Manager == FieldManager || e.Subresource != "" {
			continue
		}
		fields := fieldsOf(e)
		for limit := range q.Spec.Hard {
			if fields.Has(pathOf(limit)) {
				out.add(e.Operation, e.Manager, limit)
			}
		}
	}
	return out
}

// unedited reports whether a limit has the value written by the controller, or its base.
func unedited(q *corev1.ResourceQuota, limit corev1.ResourceName) bool {
	hard, ok := q.Spec.Hard[limit]
	for _, key := range []string{AppliedAnnotation, BaseAnnotation} {
		written, _ := parseList(key, q.Annotations) // the account has refused unreadable ones
		if was, known := written[limit]; ok && known && was.Cmp(hard) == 0 {
			return true
		}
	}
	return false
}

// text returns the value of the annotation, empty without owners.
func (o owners) text() string {
	if len(o) == 0 {
		return ""
	}
	text, _ := json.Marshal(o) // strings alone: cannot fail
	return string(text)
}

// giveBack returns managedFields with these owners of limits, and without the controller. The write
// of them must change no limit: the API server would make the controller the owner again.
func (o owners) giveBack(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := slices.DeleteFunc(slices.Clone(fields), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == FieldManager && e.Subresource == ""
	})
	for _, operation := range slices.Sorted(maps.Keys(o)) {
		for _, manager := range slices.Sorted(maps.Keys(o[operation])) {
			at := slices.IndexFunc(out, func(e metav1.ManagedFieldsEntry) bool {
				return e.Manager == manager && e.Operation == operation && e.Subresource == ""
			})
			if at < 0 {
				at = len(out)
				out = append(out, metav1.ManagedFieldsEntry{Manager: manager, Operation: operation,
					APIVersion: corev1.SchemeGroupVersion.String(), FieldsType: "FieldsV1"})
			}
			out[at].FieldsV1 = withLimits(out[at], o[operation][manager])
		}
	}
	return out
}

// withLimits returns the fields of an entry and these limits.
func withLimits(e metav1.ManagedFieldsEntry, limits []corev1.ResourceName) *metav1.FieldsV1 {
	fields := fieldsOf(e)
	for _, limit := range limits {
		fields.Insert(pathOf(limit))
	}
	text, _ := fields.ToJSON() // names alone: cannot fail
	return metav1.NewFieldsV1(string(text))
}

// fieldsOf returns the fields of an entry; none if they are unreadable. The API server writes no
// unreadable ones.
func fieldsOf(e metav1.ManagedFieldsEntry) *fieldpath.Set {
	fields := fieldpath.NewSet()
	if e.FieldsV1 == nil || fields.FromJSON(e.FieldsV1.GetRawReader()) != nil {
		return fieldpath.NewSet()
	}
	return fields
}

func pathOf(limit corev1.ResourceName) fieldpath.Path {
	return fieldpath.MakePathOrDie("spec", "hard", string(limit))
}
