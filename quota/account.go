package quota

import (
	"cmp"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Account is the state of one quota.
type Account struct {
	Quota    *corev1.ResourceQuota
	OptedOut bool // the quota has no reservations and no maintenance share, and limits no VM

	Base            corev1.ResourceList // see [Base]
	Shares          Shares              // of the base; empty after an opt-out
	FreeMaintenance corev1.ResourceList // unused maintenance share, see [Desired]
	Overrun         corev1.ResourceList // use beyond the base, see [Desired]
	entry           corev1.ResourceList // of the ledger for the overrun, see [Desired]
	second          corev1.ResourceList // charge of second launchers, see [pods.secondLaunchers]
	Desired         corev1.ResourceList // see [Desired]

	observe bool // the quota is not raised: Desired stands for status.hard

	// Reservations are the reservations charged to this quota, by name.
	Reservations []*v1alpha1.MigrationReservation

	// Reserved is the sum of the charges of migrations with a target pod, and of the largest
	// pending ones that KubeVirt can start at once, for resources of the base. Outstanding is the
	// part of it for pods not charged yet.
	Reserved, Outstanding corev1.ResourceList

	slots slots

	lacksShare map[string]corev1.ResourceList // by reservation, see [pods.limitToShare]

	claimed   corev1.ResourceList // see [Claim]
	claimants int
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
	free := p.slots(s.Parallel, ledger)
	for _, q := range sortedQuotas(s.Quotas) {
		a, err := p.account(q, s.Namespace, o, ledger, free)
		if err != nil {
			faults = append(faults, Fault{"ResourceQuota", q.Name, err})
			continue
		}
		if !a.OptedOut {
			a.Shares = maintenance.Of(a.Base)
		}
		if err := p.addUse(&a); err != nil {
			faults = append(faults, Fault{"ResourceQuota", q.Name, err})
			continue
		}
		all = append(all, a)
	}
	return all, faults
}

func (p pods) account(
	q *corev1.ResourceQuota, ns *corev1.Namespace, o Options,
	ledger []*v1alpha1.MigrationReservation, free slots,
) (Account, error) {
	base, err := Base(q, ns, o)
	if err != nil {
		return Account{}, err
	}
	a := Account{Quota: q, OptedOut: optedOut(q, o), Base: base, observe: o.Observe, slots: free}
	if !a.OptedOut {
		for _, r := range ledger {
			charge, err := a.chargeOf(r)
			if err != nil {
				return Account{}, err
			}
			if len(charge) > 0 {
				a.Reservations = append(a.Reservations, r)
			}
		}
	}
	a.Reserved, a.Outstanding = p.reserved(a, a.Reservations)
	return a, nil
}

// reserved returns the charge of reservations to the quota, and the part for pods not charged yet.
func (p pods) reserved(
	a Account, of []*v1alpha1.MigrationReservation,
) (reserved, outstanding corev1.ResourceList) {
	reserved, outstanding = corev1.ResourceList{}, corev1.ResourceList{}
	pending := pendingCharges{}
	for _, r := range of {
		charge, _ := a.chargeOf(r) // an error would have ended account
		if !p.started(r) {
			node := p.sourceNode(r)
			pending[node] = append(pending[node], charge)
			continue
		}
		add(reserved, charge)
		add(outstanding, a.outstandingOf(r, p.target(r.Name)))
	}
	next := a.slots.largest(pending)
	add(reserved, next)
	add(outstanding, next)
	return reserved, outstanding
}

// reservesPods reports whether some reservation needs room for a whole pod, see [BlocksEdits].
func (a Account) reservesPods() bool { return slices.ContainsFunc(a.Reservations, BlocksEdits) }

// BlocksEdits reports whether the reservation must end before the base of a quota may change. A
// reservation that only keeps the count/pods of ended pods can last as long as the VM, and blocks
// no edit.
func BlocksEdits(r *v1alpha1.MigrationReservation) bool {
	return slices.ContainsFunc(r.Spec.Pods, func(pod v1alpha1.ReservedPod) bool {
		_, stored := pod.Charge[countPods]
		return !stored || len(pod.Charge) > 1
	})
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

// chargeOf returns the charge of a reservation to the quota, for resources of the base.
func (a Account) chargeOf(r *v1alpha1.MigrationReservation) (corev1.ResourceList, error) {
	return a.chargeOfPods(r.Spec.Pods)
}

// chargeOfPods returns the charge of pods to the quota, for resources of the base.
func (a Account) chargeOfPods(pods []v1alpha1.ReservedPod) (corev1.ResourceList, error) {
	sum := corev1.ResourceList{}
	for _, pod := range pods {
		under, err := FallsUnder(pod, a.Quota)
		if err != nil {
			return nil, err
		}
		if under {
			add(sum, restrictTo(pod.Charge, a.Base))
		}
	}
	return sum, nil
}

// quotaWrite returns the write that changes the quota to the desired amounts, and whether the
// controller writes the quota at all. A lowered quota keeps its base until status.hard has fallen,
// because the guard needs it until then.
func (a Account) quotaWrite(o Options) (WriteQuota, bool) {
	var w WriteQuota
	switch {
	case len(a.Reservations) > 0:
		w = a.recordedWrite(o)
		w.Annotations[o.Prefix+MigratingName] = a.migratingVMs()
		delete(w.Annotations, RetryAnnotation) // stays
	case !raised(a.Quota):
		return WriteQuota{}, false
	case a.raisedInForce():
		w = a.recordedWrite(o)
	default:
		w = a.restoringWrite(o)
	}
	if a.reservesPods() {
		w.Annotations[OverrunAnnotation] = formatList(a.entry)
	}
	return w, true
}

// raisedInForce reports whether status.hard, which admission compares with, still exceeds the
// desired amounts of a quota that the controller has raised. kube-controller-manager lowers
// status.hard after spec.hard.
func (a Account) raisedInForce() bool {
	if !raised(a.Quota) || a.observe {
		return false
	}
	for name, want := range a.Desired {
		if is, ok := a.Quota.Status.Hard[name]; ok && is.Cmp(want) > 0 {
			return true
		}
	}
	return false
}

// QuotaAnnotations returns the annotations of the controller on a raised quota.
func (o Options) QuotaAnnotations() []string {
	return append(StateAnnotations(), o.Prefix+MigratingName)
}

// StateAnnotations returns the annotations of a raised quota that the controller reads back. No
// other client may change them.
func StateAnnotations() []string {
	return []string{BaseAnnotation, AppliedAnnotation, OverrunAnnotation, RetryAnnotation,
		OwnersAnnotation}
}

// changes reports whether the write changes the quota.
func (w WriteQuota) changes(q *corev1.ResourceQuota) bool {
	changed := !equalLists(w.Hard, q.Spec.Hard)
	for key, value := range w.Annotations {
		changed = changed || q.Annotations[key] != value
	}
	return changed
}

// raises reports whether a write raises an amount.
func (w WriteQuota) raises(q *corev1.ResourceQuota) bool {
	for name, hard := range q.Spec.Hard {
		if to := w.Hard[name]; to.Cmp(hard) > 0 {
			return true
		}
	}
	return false
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
		charge, _ := a.chargeOf(r) // an error would have ended account
		add(sum, charge)
		vms[r.Spec.VMI.Name] = sum
	}
	text, err := json.Marshal(vms)
	if err != nil || len(text) > maxMigratingVMs {
		return ""
	}
	return string(text)
}
