package guard

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
)

// NewQuota returns the handler for UPDATE and DELETE of ResourceQuotas, without their
// status. It refuses
//
//   - to delete a quota that something is reserved in, or to change its spec: but for what
//     sets limits back to the base, as a manager of quotas does, which is healed;
//   - to change the annotations that say what the base is;
//   - to lower a limit below what is used.
//
// It passes what is done in a namespace that ends, to a quota that has opted out, or to one
// whose annotations cannot be read.
func NewQuota(c Config) admission.Handler { return newGuard(c, "resourcequotas", Config.judgeQuota) }

func (c Config) judgeQuota(ctx context.Context, r admission.Request) error {
	was, is := &corev1.ResourceQuota{}, &corev1.ResourceQuota{}
	if err := decode(r.OldObject, was); err != nil {
		return err
	}
	deleted := r.Operation == admissionv1.Delete
	if !deleted {
		if err := decode(r.Object, is); err != nil {
			return err
		}
		if sameQuota(was, is) {
			return nil
		}
	}
	a, ok, err := c.accountOf(ctx, was)
	switch {
	case err != nil || !ok:
		return err
	case deleted && len(a.Reservations) > 0:
		return held("ResourceQuota "+was.Name+" cannot be deleted", a.Reservations)
	case deleted:
		return nil
	}
	return judgeEdit(a, is)
}

// accountOf is the account of a quota as it is before a request; false where there is
// nothing to guard.
func (c Config) accountOf(ctx context.Context, q *corev1.ResourceQuota) (quota.Account, bool, error) {
	s, err := c.read(ctx, q.Namespace)
	if err != nil || terminating(s.Namespace) {
		return quota.Account{}, false, err
	}
	s.Quotas = []*corev1.ResourceQuota{q}
	accounts, _ := quota.Accounts(s, c.Quota)
	if len(accounts) == 0 || accounts[0].OptedOut {
		return quota.Account{}, false, nil
	}
	return accounts[0], true, nil
}

// judgeEdit judges what a quota becomes.
func judgeEdit(a quota.Account, is *corev1.ResourceQuota) error {
	for _, key := range baseAnnotations() {
		if a.Quota.Annotations[key] != is.Annotations[key] {
			return refuse("annotation %s of ResourceQuota %s is mooring-controller's: it says what the quota is when no migration is under way. "+
				"Leave it as it is", key, is.Name)
		}
	}
	if equality.Semantic.DeepEqual(a.Quota.Spec, is.Spec) {
		return nil
	}
	if len(a.Reservations) == 0 {
		return lowered(a, a.Quota.Spec.Hard, is.Spec.Hard)
	}
	if resets(a, is) {
		return nil
	}
	return held("ResourceQuota "+is.Name+" cannot be changed", a.Reservations)
}

// sameQuota says whether nothing has changed that is guarded.
func sameQuota(was, is *corev1.ResourceQuota) bool {
	for _, key := range baseAnnotations() {
		if was.Annotations[key] != is.Annotations[key] {
			return false
		}
	}
	return equality.Semantic.DeepEqual(was.Spec, is.Spec)
}

func baseAnnotations() []string { return []string{quota.BaseAnnotation, quota.AppliedAnnotation} }

// resets says whether all that changes is limits that become those of the base.
func resets(a quota.Account, is *corev1.ResourceQuota) bool {
	was, like := a.Quota.Spec, is.Spec.DeepCopy()
	like.Hard = was.Hard
	if !equality.Semantic.DeepEqual(was, *like) || len(is.Spec.Hard) != len(was.Hard) {
		return false
	}
	for name, limit := range is.Spec.Hard {
		had, ok := was.Hard[name]
		base := a.Base[name]
		if !ok || limit.Cmp(had) != 0 && limit.Cmp(base) != 0 {
			return false
		}
	}
	return true
}
