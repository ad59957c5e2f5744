package quota

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Account is what there is to say of one quota.
type Account struct {
	Quota    *corev1.ResourceQuota
	OptedOut bool // nothing is reserved in it, or set aside, and nobody is held to it

	Base    corev1.ResourceList // see [Base]
	Shares  Shares              // of the base; none where it has opted out
	Aside   corev1.ResourceList // what of the share for migrations VMs leave: see [Desired]
	Desired corev1.ResourceList // see [Desired]

	// Holders are the reservations that fall under it, by name.
	Holders []*v1alpha1.MigrationReservation

	// Reserved is the sum of their charges, in resources of the base. Outstanding is the
	// part of it for pods that are not charged yet.
	Reserved, Outstanding corev1.ResourceList
}

// Accounts computes the account of each quota of a snapshot, by name. Quotas that cannot
// be dealt with are left out, and are among the faults.
func Accounts(s Snapshot, o Options) ([]Account, []Fault) {
	return newPods(s).accounts(s, o.WithDefaults(), s.Reservations)
}

func (p pods) accounts(s Snapshot, o Options, ledger []*v1alpha1.MigrationReservation) ([]Account, []Fault) {
	var faults []Fault
	maintenance, err := MaintenanceOf(s.Namespace, o)
	if err != nil {
		faults = append(faults, Fault{"Namespace", s.Namespace.Name, err})
	}
	var all []Account
	for _, q := range sortedQuotas(s.Quotas) {
		a, err := p.account(q, s.Namespace, o, ledger)
		if err != nil {
			faults = append(faults, Fault{"ResourceQuota", q.Name, err})
			continue
		}
		if !a.OptedOut {
			a.Shares = maintenance.Of(a.Base)
		}
		if a.Aside, err = p.aside(a); err != nil {
			faults = append(faults, Fault{"ResourceQuota", q.Name, err})
			continue
		}
		a.Desired = Desired(a.Base, a.Reserved, a.Aside)
		all = append(all, a)
	}
	return all, faults
}

func (p pods) account(q *corev1.ResourceQuota, ns *corev1.Namespace, o Options, ledger []*v1alpha1.MigrationReservation) (Account, error) {
	base, err := Base(q, ns, o)
	if err != nil {
		return Account{}, err
	}
	a := Account{Quota: q, OptedOut: optedOut(q, o), Base: base}
	a.Reserved, a.Outstanding = corev1.ResourceList{}, corev1.ResourceList{}
	for _, r := range ledger {
		if a.OptedOut || !Holds(r) {
			continue
		}
		if err := a.hold(r, p.target(r.Name)); err != nil {
			return Account{}, err
		}
	}
	return a, nil
}

// hold enters those pods of a reservation that fall under the quota.
func (a *Account) hold(r *v1alpha1.MigrationReservation, target family) error {
	held := false
	for _, pod := range r.Spec.Pods {
		under, err := FallsUnder(pod, a.Quota)
		if err != nil {
			return err
		}
		charge := only(pod.Charge, a.Base)
		if !under || len(charge) == 0 {
			continue
		}
		held = true
		add(a.Reserved, charge)
		add(a.Outstanding, target.outstanding(pod.Role, charge))
	}
	if held {
		a.Holders = append(a.Holders, r)
	}
	return nil
}

// Holds says whether a reservation counts: one that has expired does not.
func Holds(r *v1alpha1.MigrationReservation) bool { return r.Status.Phase != v1alpha1.PhaseExpired }

// optedOut says whether a quota's annotation wants it to be left alone.
func optedOut(q *corev1.ResourceQuota, o Options) bool {
	return q.Annotations[o.Prefix+SkipName] == "true"
}

func sortedQuotas(quotas []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	return slices.SortedFunc(slices.Values(quotas), func(a, b *corev1.ResourceQuota) int { return cmp.Compare(a.Name, b.Name) })
}

// only returns what of a list is in another.
func only(list, in corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if _, ok := in[name]; ok {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// inForce says whether status.hard, which admission compares with, has room for a holder
// beside those before it: the ones that it had room for already, and then the older ones.
func (a Account) inForce(holder string) bool {
	sum := corev1.ResourceList{}
	for _, r := range slices.SortedStableFunc(slices.Values(a.Holders), before) {
		add(sum, a.chargeOf(r))
		if r.Name == holder {
			return a.has(Desired(a.Base, sum, a.Aside))
		}
	}
	return true
}

// before orders reservations as they get room.
func before(a, b *v1alpha1.MigrationReservation) int {
	late := func(r *v1alpha1.MigrationReservation) int {
		if meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionGranted) {
			return 0
		}
		return 1
	}
	created := func(r *v1alpha1.MigrationReservation) int64 {
		if r.CreationTimestamp.IsZero() { // it is about to be
			return math.MaxInt64
		}
		return r.CreationTimestamp.Unix()
	}
	return cmp.Or(cmp.Compare(late(a), late(b)), cmp.Compare(created(a), created(b)), cmp.Compare(a.Name, b.Name))
}

// has says whether status.hard is no less than this.
func (a Account) has(hard corev1.ResourceList) bool {
	for name, want := range hard {
		if is, ok := a.Quota.Status.Hard[name]; !ok || is.Cmp(want) < 0 {
			return false
		}
	}
	return true
}

// chargeOf is what a reservation holds in the quota.
func (a Account) chargeOf(r *v1alpha1.MigrationReservation) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range r.Spec.Pods {
		if under, err := FallsUnder(pod, a.Quota); err == nil && under {
			add(sum, only(pod.Charge, a.Base))
		}
	}
	return sum
}

// write returns the write that brings the quota to what is desired, and whether there is
// anything to write.
func (a Account) write(o Options) (WriteQuota, bool) {
	w := WriteQuota{Name: a.Quota.Name, UID: a.Quota.UID, ResourceVersion: a.Quota.ResourceVersion, Hard: a.Desired}
	migrating := o.Prefix + MigratingName
	switch {
	case len(a.Holders) > 0:
		w.Annotations = Annotations{
			BaseAnnotation: formatList(a.Base), AppliedAnnotation: formatList(a.Desired), migrating: a.migratingVMs(),
		}
	case raised(a.Quota):
		w.Annotations = Annotations{BaseAnnotation: "", AppliedAnnotation: "", migrating: ""}
	default:
		return WriteQuota{}, false
	}
	changed := !same(w.Hard, a.Quota.Spec.Hard)
	for key, value := range w.Annotations {
		changed = changed || a.Quota.Annotations[key] != value
	}
	return w, changed
}

// lowers says whether a write takes something away.
func (w WriteQuota) lowers(q *corev1.ResourceQuota) bool {
	for name, hard := range q.Spec.Hard {
		if to := w.Hard[name]; to.Cmp(hard) < 0 {
			return true
		}
	}
	return false
}

// maxMigratingVMs bounds an annotation that is for readers alone, in bytes. All annotations
// of an object together may have 256 KiB.
const maxMigratingVMs = 64 << 10

// migratingVMs is the annotation {"VM":{"limits.cpu":"1"}}; empty where it gets too long.
func (a Account) migratingVMs() string {
	vms := map[string]corev1.ResourceList{}
	for _, r := range a.Holders {
		sum := vms[r.Spec.VMI.Name]
		if sum == nil {
			sum = corev1.ResourceList{}
		}
		add(sum, a.chargeOf(r))
		vms[r.Spec.VMI.Name] = sum
	}
	text, err := json.Marshal(vms)
	if err != nil || len(text) > maxMigratingVMs {
		return ""
	}
	return string(text)
}
