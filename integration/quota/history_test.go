package quota

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/controller"
)

// version is spec.hard of a quota at one resourceVersion.
type version struct {
	at   uint64
	hard corev1.ResourceList
}

// entry is the charge of a reservation from one resourceVersion on.
type entry struct {
	at     uint64
	name   string              // the migration's UID
	charge corev1.ResourceList // nil: released
}

// history records a namespace's quota and ledger. One etcd counts the resourceVersions of both, so
// they can be ordered.
type history struct {
	quotas []version
	ledger []entry
	ended  map[string]uint64 // resourceVersion of each migration's end, by UID

	migrated map[types.UID]corev1.ResourceList // charges of target pods
}

func at(t *testing.T, o runtime.Object) uint64 {
	t.Helper()
	m, err := meta.Accessor(o)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func versionOf(t *testing.T, q *corev1.ResourceQuota) version {
	t.Helper()
	return version{at(t, q), q.Spec.Hard.DeepCopy()}
}

// record records the quota, the ledger and the ends of migrations in a namespace. The returned
// function stops the recording and returns it.
func record(t *testing.T, c *kubevirttest.Cluster, namespace string) func() history {
	t.Helper()
	h := history{ended: map[string]uint64{}, migrated: map[types.UID]corev1.ResourceList{}}
	stopPods := watchKind(t, c, namespace, &corev1.PodList{}, func(event watch.Event) {
		pod, ok := event.Object.(*corev1.Pod)
		if ok && pod.Labels[virtv1.MigrationJobLabel] != "" {
			h.migrated[pod.UID] = quota.Charge(pod)
		}
	})
	stopLedger := watchKind(t, c, namespace, &v1alpha1.MigrationReservationList{},
		func(event watch.Event) {
			if r, ok := event.Object.(*v1alpha1.MigrationReservation); ok {
				e := entry{at: at(t, r), name: r.Name}
				if event.Type != watch.Deleted {
					e.charge = reserved(r)
				}
				h.ledger = append(h.ledger, e)
			}
		})
	stopQuotas := watchKind(t, c, namespace, &corev1.ResourceQuotaList{}, func(event watch.Event) {
		if q, ok := event.Object.(*corev1.ResourceQuota); ok && event.Type != watch.Deleted {
			h.quotas = append(h.quotas, versionOf(t, q))
		}
	})
	stopMigrations := watchKind(t, c, namespace, &virtv1.VirtualMachineInstanceMigrationList{},
		func(event watch.Event) {
			m, ok := event.Object.(*virtv1.VirtualMachineInstanceMigration)
			if !ok || h.ended[string(m.UID)] > 0 {
				return
			}
			if m.IsFinal() || event.Type == watch.Deleted {
				h.ended[string(m.UID)] = at(t, m)
			}
		})
	return func() history {
		stopQuotas()
		stopLedger()
		stopMigrations()
		stopPods()
		if len(h.quotas) == 0 {
			t.Error("no quota observed")
		}
		return h
	}
}

// watchKind calls note for each change of objects of one kind in a namespace, until stop is called.
func watchKind(
	t *testing.T, c *kubevirttest.Cluster, namespace string, kind client.ObjectList,
	note func(watch.Event),
) (stop func()) {
	t.Helper()
	scheme, err := controller.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := client.NewWithWatch(c.Plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	events, err := watcher.Watch(t.Context(), kind, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			note(event)
		}
	}()
	return func() {
		events.Stop()
		<-ended
	}
}

// reserved returns the sum of a reservation's charges.
func reserved(r *v1alpha1.MigrationReservation) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, pod := range r.Spec.Pods {
		for name, charge := range pod.Charge {
			q := sum[name]
			q.Add(charge)
			sum[name] = q
		}
	}
	return sum
}

// check compares every recorded quota with the base in force at its time. bases are the written
// bases, oldest first:
//
//   - A quota is never below its base.
//   - A change of spec.hard, except by the writer of bases, results in base + current ledger, and
//     beside reservations at most the charge of VMs that have migrated more. So the ledger contains
//     every raise before the quota does.
//
// Between two changes, spec.hard may exceed base + ledger. A release first leaves the ledger, then
// the controller or its successor lowers the quota.
//
// It returns the number of times the quota was above its base.
func (h history) check(t *testing.T, bases []version) (raised int) {
	t.Helper()
	var before corev1.ResourceList
	for _, q := range h.quotas {
		base := inForceAt(bases, q.at)
		if !atLeast(q.hard, base.hard) {
			t.Errorf("at %d hard is %v, below its base %v", q.at, q.hard, base.hard)
		}
		changed := !equality.Semantic.DeepEqual(before, q.hard)
		before = q.hard
		if base.at == q.at || !changed {
			continue
		}
		want := h.baseAndLedger(base.hard, q.at)
		most := want
		if len(h.ledgerAt(q.at)) > 0 {
			most = h.withMigrated(want)
		}
		if !atLeast(q.hard, want) || !atLeast(most, q.hard) {
			t.Errorf("at %d hard becomes %v, and base and ledger are %v, with migrated VMs %v",
				q.at, q.hard, want, most)
		}
		if !equality.Semantic.DeepEqual(q.hard, base.hard) {
			raised++
		}
	}
	return raised
}

func inForceAt(bases []version, at uint64) version {
	in := bases[0]
	for _, b := range bases {
		if b.at <= at {
			in = b
		}
	}
	return in
}

func atLeast(hard, least corev1.ResourceList) bool {
	for name, q := range least {
		has, ok := hard[name]
		if !ok || has.Cmp(q) < 0 {
			return false
		}
	}
	return true
}

// baseAndLedger returns the base plus the ledger at a resourceVersion, in resources of the base.
func (h history) baseAndLedger(base corev1.ResourceList, at uint64) corev1.ResourceList {
	sum := base.DeepCopy()
	for _, e := range h.ledgerAt(at) {
		for name := range base {
			q := sum[name]
			q.Add(e.charge[name])
			sum[name] = q
		}
	}
	return sum
}

// withMigrated adds the charges of all target pods.
func (h history) withMigrated(to corev1.ResourceList) corev1.ResourceList {
	sum := to.DeepCopy()
	for _, charge := range h.migrated {
		for name := range to {
			q := sum[name]
			q.Add(charge[name])
			sum[name] = q
		}
	}
	return sum
}

func (h history) ledgerAt(at uint64) map[string]entry {
	ledger := map[string]entry{}
	for _, e := range h.ledger {
		switch {
		case e.at > at:
		case e.charge == nil:
			delete(ledger, e.name)
		default:
			ledger[e.name] = e
		}
	}
	return ledger
}

// checkOneAtATime fails t if two active migrations had reservations at once.
func (h history) checkOneAtATime(t *testing.T) {
	t.Helper()
	for _, e := range h.ledger {
		underWay := 0
		for uid := range h.ledgerAt(e.at) {
			if end, ended := h.ended[uid]; !ended || e.at < end {
				underWay++
			}
		}
		if underWay > 1 {
			t.Errorf("at %d there are %d reservations of migrations that have not ended",
				e.at, underWay)
		}
	}
}
