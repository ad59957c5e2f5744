package quota

import corev1 "k8s.io/api/core/v1"

// Restore returns the next write that restores a quota with any of [Options.QuotaAnnotations]. If
// spec.hard differs from the base, the first write sets it to the base. The last write removes the
// annotations and gives the limits back to their owners in managedFields. It changes no limit,
// because the API server makes the writer the owner of changed ones. The caller writes both as
// [FieldManager].
//
// An unreadable annotation is an error that wraps an [*api.InvalidError].
func Restore(q *corev1.ResourceQuota, ns *corev1.Namespace, o Options) (WriteQuota, error) {
	base, err := Base(q, ns, o)
	if err != nil {
		return WriteQuota{}, err
	}
	return Account{Quota: q, Base: base, Desired: base}.restoringWrite(o), nil
}

// restoringWrite returns a write of the limits. If they have the desired amounts, it returns the
// last write: it removes the annotations and gives the limits back to their owners.
func (a Account) restoringWrite(o Options) WriteQuota {
	if !equalLists(a.Desired, a.Quota.Spec.Hard) {
		return a.recordedWrite(o)
	}
	w := a.plainWrite(o)
	if len(a.Quota.ManagedFields) > 0 {
		w.ManagedFields = a.owners().giveBack(a.Quota.ManagedFields)
	}
	return w
}

// recordedWrite returns a write of the limits with the annotations that restore them.
func (a Account) recordedWrite(o Options) WriteQuota {
	w := a.plainWrite(o)
	w.Annotations[BaseAnnotation] = formatList(a.Base)
	w.Annotations[AppliedAnnotation] = formatList(a.Desired)
	w.Annotations[OwnersAnnotation] = a.owners().text()
	return w
}

// plainWrite returns a write of the limits that removes the controller's annotations.
func (a Account) plainWrite(o Options) WriteQuota {
	w := WriteQuota{Name: a.Quota.Name, UID: a.Quota.UID, ResourceVersion: a.Quota.ResourceVersion,
		Hard: a.Desired, Annotations: Annotations{}}
	for _, key := range o.QuotaAnnotations() {
		w.Annotations[key] = ""
	}
	return w
}
