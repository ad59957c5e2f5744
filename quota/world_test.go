package quota_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// world is a namespace in the API server.
type world struct {
	s       quota.Snapshot
	version int
}

func worldOf(s quota.Snapshot) *world { return &world{s: copied(s), version: 1000} }

// snapshot returns a live snapshot.
func (w *world) snapshot() quota.Snapshot {
	s := copied(w.s)
	s.Live = true
	return s
}

// copied returns a deep copy.
func copied(s quota.Snapshot) quota.Snapshot {
	s.Namespace = s.Namespace.DeepCopy()
	s.VMIs = slices.Clone(s.VMIs)
	s.Migrations = copies(s.Migrations)
	s.Pods = copies(s.Pods)
	s.Reservations = copies(s.Reservations)
	s.Quotas = copies(s.Quotas)
	return s
}

func copies[T interface{ DeepCopy() T }](all []T) []T {
	out := make([]T, len(all))
	for i, one := range all {
		out[i] = one.DeepCopy()
	}
	return out
}

func (w *world) next() string {
	w.version++
	return strconv.Itoa(w.version)
}

var errConflict = errors.New("conflict")

// do applies one write. A release takes two.
func (w *world) do(a quota.Action) error {
	switch a := a.(type) {
	case quota.CreateReservation:
		return w.create(a.Reservation)
	case quota.UpdateReservation:
		return w.update(a.Reservation, func(to *v1alpha1.MigrationReservation) {
			to.Finalizers, to.Spec = a.Reservation.Finalizers, a.Reservation.Spec
		})
	case quota.UpdateStatus:
		return w.update(a.Reservation, func(to *v1alpha1.MigrationReservation) {
			to.Status = a.Reservation.Status
		})
	case quota.ReleaseReservation:
		if err := w.remove(a); err != nil {
			return err
		}
		return w.remove(a)
	case quota.WriteQuota:
		return w.write(a)
	case quota.LabelNamespace:
		delete(w.s.Namespace.Labels, quota.ReservedLabel)
		if a.Reserved {
			w.s.Namespace.Labels = map[string]string{quota.ReservedLabel: "true"}
		}
		return nil
	case quota.AnnotateNamespace:
		w.s.Namespace.Annotations = a.Annotations.Apply(w.s.Namespace.Annotations)
		return nil
	}
	return fmt.Errorf("unknown action %T", a)
}

func (w *world) find(name string) int {
	return slices.IndexFunc(w.s.Reservations, func(r *v1alpha1.MigrationReservation) bool {
		return r.Name == name
	})
}

func (w *world) create(r *v1alpha1.MigrationReservation) error {
	if w.find(r.Name) >= 0 {
		return errConflict
	}
	r = r.DeepCopy()
	r.ResourceVersion, r.Status = w.next(), v1alpha1.MigrationReservationStatus{}
	r.CreationTimestamp = metav1.Time{Time: w.s.Now}
	w.s.Reservations = append(w.s.Reservations, r)
	return nil
}

// update checks the resourceVersion of the plan.
func (w *world) update(
	r *v1alpha1.MigrationReservation, change func(to *v1alpha1.MigrationReservation),
) error {
	at := w.find(r.Name)
	if at < 0 || w.s.Reservations[at].ResourceVersion != r.ResourceVersion && !w.ours(at, r) {
		return errConflict
	}
	to := w.s.Reservations[at].DeepCopy()
	change(to)
	to.Annotations = map[string]string{"after": r.ResourceVersion}
	to.ResourceVersion = w.next()
	w.s.Reservations[at] = to
	return nil
}

// ours reports whether the previous write belongs to the same plan.
func (w *world) ours(at int, r *v1alpha1.MigrationReservation) bool {
	return w.s.Reservations[at].Annotations["after"] == r.ResourceVersion
}

// remove deletes the object first and removes its finalizer at the second call.
func (w *world) remove(a quota.ReleaseReservation) error {
	at := w.find(a.Reservation.Name)
	if at < 0 {
		return errConflict
	}
	r := w.s.Reservations[at]
	if r.DeletionTimestamp != nil {
		w.s.Reservations = slices.Delete(slices.Clone(w.s.Reservations), at, at+1)
		return nil
	}
	if r.ResourceVersion != a.Reservation.ResourceVersion {
		return errConflict
	}
	r = r.DeepCopy()
	r.DeletionTimestamp, r.ResourceVersion = &metav1.Time{Time: w.s.Now}, w.next()
	w.s.Reservations[at] = r
	return nil
}

func (w *world) write(a quota.WriteQuota) error {
	at := slices.IndexFunc(w.s.Quotas, func(q *corev1.ResourceQuota) bool { return q.UID == a.UID })
	if at < 0 || w.s.Quotas[at].ResourceVersion != a.ResourceVersion {
		return errConflict
	}
	w.s.Quotas[at] = a.Apply(w.s.Quotas[at])
	w.s.Quotas[at].ResourceVersion = w.next()
	return nil
}

// follow acts as kube-controller-manager: it updates status.hard and the use.
func (w *world) follow() {
	for i, q := range w.s.Quotas {
		q = q.DeepCopy()
		q.Status.Hard, q.Status.Used = q.Spec.Hard.DeepCopy(), w.used(q)
		q.ResourceVersion = w.next()
		w.s.Quotas[i] = q
	}
}

// used returns the charge of all pods. Quotas in this model have no scopes.
func (w *world) used(q *corev1.ResourceQuota) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name := range q.Spec.Hard {
		var sum resource.Quantity
		for _, pod := range w.s.Pods {
			if charge, ok := quota.Charge(pod)[name]; ok &&
				(quota.Charged(pod, w.s.Now) || name == "count/pods") {
				sum.Add(charge)
			}
		}
		used[name] = sum
	}
	return used
}

// admits reports whether kube-apiserver would admit the pod.
func (w *world) admits(pod *corev1.Pod) bool {
	for _, q := range w.s.Quotas {
		used := w.used(q)
		for name, charge := range quota.Charge(pod) {
			most, ok := q.Status.Hard[name]
			sum := used[name].DeepCopy()
			sum.Add(charge)
			if ok && sum.Cmp(most) > 0 {
				return false
			}
		}
	}
	return true
}

// running returns the charged pods of a VM.
func (w *world) running(vmi string) []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range w.s.Pods {
		if pod.Labels[kubevirtv1.CreatedByLabel] == vmi && quota.Charged(pod, w.s.Now) {
			all = append(all, pod)
		}
	}
	return all
}

func (w *world) pass(d time.Duration) { w.s.Now = w.s.Now.Add(d) }

// admitsOther reports whether webhook and kube-apiserver would admit a pod that is no migration
// target.
func (w *world) admitsOther(pod *corev1.Pod) bool {
	if w.s.Namespace.Labels[quota.ReservedLabel] != "true" {
		return w.admits(pod)
	}
	accounts, _ := quota.Accounts(w.snapshot(), quota.Options{})
	return quota.LackingForPod(accounts, quota.Reserve("", pod)) == "" && w.admits(pod)
}

// withinBase reports whether a pod fits below the base beside all others. Of a migration with a
// reservation the larger launcher counts.
func (w *world) withinBase(pod *corev1.Pod, base corev1.ResourceList) bool {
	sum := w.charged()
	plus(sum, quota.Charge(pod))
	for _, r := range w.s.Reservations {
		if both := w.running(string(r.Spec.VMI.UID)); len(both) == 2 {
			minusSmaller(sum, quota.Charge(both[0]), quota.Charge(both[1]))
		}
	}
	for name, q := range quota.Charge(pod) {
		most, limited := base[name]
		if total := sum[name]; limited && q.Sign() > 0 && total.Cmp(most) > 0 {
			return false
		}
	}
	return true
}

// charged returns the charge of all pods.
func (w *world) charged() corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range w.s.Pods {
		if quota.Charged(pod, w.s.Now) {
			plus(sum, quota.Charge(pod))
		}
	}
	return sum
}

// minusSmaller subtracts the smaller of two charges for each resource.
func minusSmaller(sum, a, b corev1.ResourceList) {
	for name, q := range a {
		if other := b[name]; other.Cmp(q) < 0 {
			q = other
		}
		left := sum[name].DeepCopy()
		left.Sub(q)
		sum[name] = left
	}
}

// charge stores a pod. kube-apiserver adds it to the use at once.
func (w *world) charge(pod *corev1.Pod) {
	w.s.Pods = append(w.s.Pods, pod)
	for _, q := range w.s.Quotas {
		plus(q.Status.Used, restricted(quota.Charge(pod), q.Status.Used))
	}
}

func restricted(list, in corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		if _, ok := in[name]; ok {
			out[name] = q
		}
	}
	return out
}
