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

// Account is the state of one quota.
type Account struct {
	Quota    *corev1.ResourceQuota
	OptedOut bool // the quota has no reservations and no maintenance share, and limits no VM

	Base            corev1.ResourceList // see [Base]
	Shares          Shares              // of the base; empty after an opt-out
	FreeMaintenance corev1.ResourceList // part of the maintenance share free of VMs, see [Desired]
	Desired         corev1.ResourceList // see [Desired]

	observe bool // the quota is not raised: Desired stands for status.hard

	// Reservations are the reservations charged to this quota, by name.
	Reservations []*v1alpha1.MigrationReservation

	// Reserved is the sum of their charges, for resources of the base. Outstanding is the part of
	// it for pods not charged yet.
	Reserved, Outstanding corev1.ResourceList
}

// Accounts computes the account of each quota of a snapshot, sorted by name. A quota with a fault
// is missing from the accounts and listed in the faults.
func Accounts(s Snapshot, o Options) ([]Account, []Fault) {
	return newPods(s).accounts(s, o.WithDefaults(), s.Reservations)
}

func (p pods) accounts(
	s Snapshot, o Options, ledger []*v1alpha1.MigrationReservation,
) ([]Account, []Fault) {
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
		if a.FreeMaintenance, err = p.freeMaintenance(a); err != nil {
			faults = append(faults, Fault{"ResourceQuota", q.Name, err})
			continue
		}
		a.Desired = Desired(a.Base, a.Reserved, a.FreeMaintenance)
		all = append(all, a)
	}
	return all, faults
}

func (p pods) account(
	q *corev1.ResourceQuota, ns *corev1.Namespace, o Options,
	ledger []*v1alpha1.MigrationReservation,
) (Account, error) {
	base, err := Base(q, ns, o)
	if err != nil {
		return Account{}, err
	}
	a := Account{Quota: q, OptedOut: optedOut(q, o), Base: base, observe: o.Observe}
	a.Reserved, a.Outstanding = corev1.ResourceList{}, corev1.ResourceList{}
	for _, r := range ledger {
		if a.OptedOut || !IsActive(r) {
			continue
		}
		if err := a.addReservation(r, p.target(r.Name)); err != nil {
			return Account{}, err
		}
	}
	return a, nil
}

// addReservation adds the pods of a reservation that fall under the quota.
func (a *Account) addReservation(r *v1alpha1.MigrationReservation, target family) error {
	found := false
	for _, pod := range r.Spec.Pods {
		under, err := FallsUnder(pod, a.Quota)
		if err != nil {
			return err
		}
		charge := restrictTo(pod.Charge, a.Base)
		if !under || len(charge) == 0 {
			continue
		}
		found = true
		add(a.Reserved, charge)
		add(a.Outstanding, target.outstanding(pod.Role, charge))
	}
	if found {
		a.Reservations = append(a.Reservations, r)
	}
	return nil
}

// IsActive reports whether a reservation counts. An expired one does not.
func IsActive(r *v1alpha1.MigrationReservation) bool {
	return r.Status.Phase != v1alpha1.PhaseExpired
}

// optedOut reports whether an annotation excludes the quota.
func optedOut(q *corev1.ResourceQuota, o Options) bool {
	return q.Annotations[o.Prefix+SkipName] == "true"
}

func sortedQuotas(quotas []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	return slices.SortedFunc(slices.Values(quotas),
		func(a, b *corev1.ResourceQuota) int { return cmp.Compare(a.Name, b.Name) })
}

// restrictTo returns the entries of list with names in another list.
func restrictTo(list, in corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if _, ok := in[name]; ok {
			out[name] = q.DeepCopy()
		}
	}
	return out
}

// inForce reports whether status.hard, which admission compares with, has room for a reservation
// beside all earlier ones: first the granted ones, then the older ones.
func (a Account) inForce(holder string) bool {
	sum := corev1.ResourceList{}
	for _, r := range slices.SortedStableFunc(slices.Values(a.Reservations), compareGrantOrder) {
		add(sum, a.chargeOf(r))
		if r.Name == holder {
			return a.hardCovers(Desired(a.Base, sum, a.FreeMaintenance))
		}
	}
	return true
}

// compareGrantOrder orders reservations by granting: granted ones first, then by age.
func compareGrantOrder(a, b *v1alpha1.MigrationReservation) int {
	late := func(r *v1alpha1.MigrationReservation) int {
		if meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionGranted) {
			return 0
		}
		return 1
	}
	created := func(r *v1alpha1.MigrationReservation) int64 {
		if r.CreationTimestamp.IsZero() { // not created yet
			return math.MaxInt64
		}
		return r.CreationTimestamp.Unix()
	}
	return cmp.Or(cmp.Compare(late(a), late(b)), cmp.Compare(created(a), created(b)),
		cmp.Compare(a.Name, b.Name))
}

// hard returns the limits that admission compares with. In mode observe these are the limits that
// mode enforce would set.
func (a Account) hard() corev1.ResourceList {
	if !a.observe {
		return a.Quota.Status.Hard
	}
	hard := restrictTo(a.Desired, a.Quota.Status.Hard)
	for name, q := range a.Quota.Status.Hard {
		if _, ok := hard[name]; !ok {
			hard[name] = q
		}
	}
	return hard
}

// hardCovers reports whether status.hard is at least this amount.
func (a Account) hardCovers(hard corev1.ResourceList) bool {
	for name, want := range hard {
		if is, ok := a.Quota.Status.Hard[name]; !ok || is.Cmp(want) < 0 {
			return false
		}
	}
	return true
}

// chargeOf returns the charge of a reservation to the quota.
func (a Account) chargeOf(r *v1alpha1.MigrationReservation) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range r.Spec.Pods {
		if under, err := FallsUnder(pod, a.Quota); err == nil && under {
			add(sum, restrictTo(pod.Charge, a.Base))
		}
	}
	return sum
}

// quotaWrite returns the write that changes the quota to the desired amounts, and whether the write
// changes anything.
func (a Account) quotaWrite(o Options) (WriteQuota, bool) {
	w := WriteQuota{Name: a.Quota.Name, UID: a.Quota.UID, ResourceVersion: a.Quota.ResourceVersion,
		Hard: a.Desired}
	migrating := o.Prefix + MigratingName
	switch {
	case len(a.Reservations) > 0:
		w.Annotations = Annotations{
			BaseAnnotation: formatList(a.Base), AppliedAnnotation: formatList(a.Desired),
			migrating: a.migratingVMs(),
		}
	case raised(a.Quota):
		w.Annotations = Annotations{BaseAnnotation: "", AppliedAnnotation: "", migrating: ""}
	default:
		return WriteQuota{}, false
	}
	changed := !equalLists(w.Hard, a.Quota.Spec.Hard)
	for key, value := range w.Annotations {
		changed = changed || a.Quota.Annotations[key] != value
	}
	return w, changed
}

// lowers reports whether a write lowers an amount.
func (w WriteQuota) lowers(q *corev1.ResourceQuota) bool {
	for name, hard := range q.Spec.Hard {
		if to := w.Hard[name]; to.Cmp(hard) < 0 {
			return true
		}
	}
	return false
}

// maxMigratingVMs is the maximum size of the informational annotation in bytes. Kubernetes allows
// 256 KiB for all annotations of an object.
const maxMigratingVMs = 64 << 10

// migratingVMs returns the annotation {"VM":{"limits.cpu":"1"}}, or "" if it is too long.
func (a Account) migratingVMs() string {
	vms := map[string]corev1.ResourceList{}
	for _, r := range a.Reservations {
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
