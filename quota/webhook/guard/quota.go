package guard

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota"
)

// NewQuota returns the handler for UPDATE and DELETE of ResourceQuotas, without their status. It
// refuses
//
//   - to delete a quota with reservations or to change its spec, except for a reset of limits to
//     the base, as quota managers do it: the controller raises them again. A reservation for the
//     object of an ended pod does not count, see [quota.BlocksEdits];
//   - to change the controller's annotations;
//   - to lower a limit below the use.
//
// Changes pass in a namespace in deletion, for an opted-out quota, and for a quota with unreadable
// annotations.
func NewQuota(c Config) admission.Handler {
	return newGuard(c, "resourcequotas", Config.judgeQuota)
}

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
	holders := blocking(a.Reservations)
	switch {
	case err != nil || !ok:
		return err
	case deleted && len(holders) > 0:
		return refuseReserved("ResourceQuota "+was.Name+" cannot be deleted", holders)
	case deleted:
		return nil
	}
	return c.judgeEdit(a, is)
}

// accountOf returns the account of a quota before the request; false if the guard does not apply.
func (c Config) accountOf(
	ctx context.Context, q *corev1.ResourceQuota,
) (quota.Account, bool, error) {
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

// judgeEdit checks the new state of a quota.
func (c Config) judgeEdit(a quota.Account, is *corev1.ResourceQuota) error {
	for _, key := range quota.StateAnnotations() {
		if a.Quota.Annotations[key] != is.Annotations[key] {
			return refuse("annotation %s of ResourceQuota %s belongs to mooring-controller, which "+
				"computes the quota from it. Leave it as it is", key, is.Name)
		}
	}
	if equality.Semantic.DeepEqual(a.Quota.Spec, is.Spec) {
		return nil
	}
	holders := blocking(a.Reservations)
	switch {
	case len(holders) == 0:
		return c.judgeBase(a, is)
	case resetsToBase(a, is):
		return nil
	}
	return refuseReserved("ResourceQuota "+is.Name+" cannot be changed", holders)
}

// judgeBase checks the base that an edit sets. The controller adds the room of stored pods again.
// A quota manager's base does not count, because an edit does not change it.
func (c Config) judgeBase(a quota.Account, is *corev1.ResourceQuota) error {
	before, err := quota.Base(a.Quota, nil, c.Quota)
	if err != nil {
		return err
	}
	after, err := quota.Base(is, nil, c.Quota)
	if err != nil {
		return err
	}
	return refuseLowered(a, before, after)
}

// sameQuota reports whether the guarded fields are unchanged.
func sameQuota(was, is *corev1.ResourceQuota) bool {
	for _, key := range quota.StateAnnotations() {
		if was.Annotations[key] != is.Annotations[key] {
			return false
		}
	}
	return equality.Semantic.DeepEqual(was.Spec, is.Spec)
}

// resetsToBase reports whether the only change is a reset of limits to the base.
func resetsToBase(a quota.Account, is *corev1.ResourceQuota) bool {
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
