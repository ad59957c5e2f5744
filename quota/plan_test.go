package quota_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// pending returns a snapshot with a migration and no reservation.
func pending(quotas ...*corev1.ResourceQuota) quota.Snapshot {
	s := snapshot(quotas...)
	s.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{
		migration("m", "vm", kubevirtv1.MigrationPending)}
	s.Pods = []*corev1.Pod{launcher("source", "vm", "2", "4Gi")}
	return s
}

func TestTheLedgerIsWrittenFirst(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	s.Live = false
	r := &v1alpha1.MigrationReservation{}
	r.Name, r.Namespace, r.Finalizers = "m", namespace, []string{v1alpha1.Finalizer}
	r.Spec = v1alpha1.MigrationReservationSpec{
		Migration: v1alpha1.Reference{Name: "m", UID: "m"},
		VMI:       v1alpha1.Reference{Name: "vm", UID: "vm"},
		Source:    &v1alpha1.Reference{Name: "source", UID: "source"},
		Pods:      []v1alpha1.ReservedPod{{Role: v1alpha1.RoleLauncher, Charge: both("2", "4Gi")}},
		From:      v1alpha1.Estimated,
	}
	want := []quota.Action{
		quota.CreateReservation{Reservation: r},
		quota.LabelNamespace{Reserved: true},
		quota.WriteQuota{Name: "quota", UID: "quota", ResourceVersion: "1",
			Hard: list("limits.cpu", "4"), Annotations: quota.Annotations{
				quota.BaseAnnotation:           `{"limits.cpu":"2"}`,
				quota.AppliedAnnotation:        `{"limits.cpu":"4"}`,
				quota.OverrunAnnotation:        "{}",
				quota.OwnersAnnotation:         "",
				"harvesterhci.io/migratingVMs": `{"vm":{"limits.cpu":"2"}}`,
			}},
	}
	if d := diff(want, quota.MakePlan(s, quota.Options{}).Actions); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestEventsListQuotaResources: a launcher has a charge for a dozen resources, and quotas limit few
// of them.
func TestEventsListQuotaResources(t *testing.T) {
	reports := quota.MakePlan(pending(hard(list("limits.cpu", "2"), nil)), quota.Options{}).Reports
	if len(reports) != 1 || reports[0].Message != "reserving limits.cpu=2 in ResourceQuotas "+
		"(Estimated)" {
		t.Errorf("reports %+v", reports)
	}
}

func TestGrantedWhenStatusHasFollowed(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	w := worldOf(s)
	for _, a := range quota.MakePlan(s, quota.Options{}).Actions {
		if err := w.do(a); err != nil {
			t.Fatal(err)
		}
	}
	if p := quota.MakePlan(w.snapshot(), quota.Options{}); len(p.Actions)+len(p.Reports) > 0 {
		t.Errorf("%+v: want no action before status.hard has followed", p)
	}
	w.follow()
	p := quota.MakePlan(w.snapshot(), quota.Options{})
	if len(p.Reports) != 1 || p.Reports[0].Reason != quota.ReasonGranted {
		t.Errorf("reports %+v, want one, of the grant", p.Reports)
	}
	r := reservation(t, settled(t, w.snapshot()))
	if r.Status.Phase != v1alpha1.PhaseGranted || !meta.IsStatusConditionTrue(r.Status.Conditions,
		v1alpha1.ConditionGranted) {
		t.Errorf("status %+v, want Granted", r.Status)
	}
}

func TestNothingIsReserved(t *testing.T) {
	for name, change := range map[string]func(s *quota.Snapshot){
		"without a quota": func(s *quota.Snapshot) { s.Quotas = nil },
		"opted out": func(s *quota.Snapshot) {
			s.Quotas[0].Annotations = map[string]string{
				"harvesterhci.io/skipResourceQuotaAutoScaling": "true"}
		},
		"out of scope": func(s *quota.Snapshot) {
			s.Quotas[0].Spec.Scopes = []corev1.ResourceQuotaScope{
				corev1.ResourceQuotaScopeBestEffort}
		},
		"succeeded": func(s *quota.Snapshot) {
			s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
		},
		"failed": func(s *quota.Snapshot) {
			s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
		},
		"aborted": func(s *quota.Snapshot) {
			with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationAbortRequested)
		},
		"being deleted": func(s *quota.Snapshot) {
			s.Migrations[0].DeletionTimestamp = &metav1.Time{Time: s.Now}
		},
		"to elsewhere": func(s *quota.Snapshot) {
			s.Migrations[0].Spec.SendTo = &kubevirtv1.VirtualMachineInstanceMigrationSource{}
		},
		"no such VMI":   func(s *quota.Snapshot) { s.VMIs = nil },
		"no pod to see": func(s *quota.Snapshot) { s.Pods = nil },
		"namespace going": func(s *quota.Snapshot) {
			s.Namespace.DeletionTimestamp = &metav1.Time{Time: s.Now}
		},
		"target is charged": func(s *quota.Snapshot) {
			s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := pending(hard(list("limits.cpu", "2"), nil))
			change(&s)
			for _, a := range quota.MakePlan(s, quota.Options{}).Actions {
				t.Errorf("%T", a)
			}
		})
	}
}

// A quota with an unreadable base keeps its limits. The guard protects its unknown room.
func TestUnreadableBase(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	annotated(s.Quotas[0], "?", "")
	for _, a := range quota.MakePlan(s, quota.Options{}).Actions {
		switch a.(type) {
		case quota.CreateReservation, quota.LabelNamespace:
		default:
			t.Errorf("%T", a)
		}
	}
}

func TestFaultsAreReportedAndSkipped(t *testing.T) {
	bad, good := hard(list("limits.cpu", "2"), nil), hard(list("limits.cpu", "2"), nil)
	good.Name, good.UID = "good", "good"
	s := pending(annotated(bad, "?", ""), good)
	s.Namespace.Annotations = map[string]string{quota.MaintenanceAnnotation: "?"}
	p := quota.MakePlan(s, quota.Options{})
	var faults []string
	for _, f := range p.Faults {
		faults = append(faults, f.Kind+" "+f.Name)
	}
	if d := cmp.Diff([]string{"Namespace vms", "ResourceQuota quota"}, faults); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "2"))
	if d := diff(list("limits.cpu", "4"), s.Quotas[1].Spec.Hard); d != "" {
		t.Errorf("the other quota (-want +got):\n%s", d)
	}
}

func TestAllQuotasOfThePod(t *testing.T) {
	cpu, scopedOut, class := hard(list("limits.cpu", "2"), nil), hard(list("pods", "1"), nil),
		hard(list("requests.memory", "4Gi"), nil)
	scopedOut.Name, scopedOut.UID, scopedOut.Spec.Scopes = "other", "other",
		[]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}
	class.Name, class.UID, class.Spec.Scopes = "class", "class",
		[]corev1.ResourceQuotaScope{corev1.ResourceQuotaScopePriorityClass}
	s := pending(cpu, scopedOut, class)
	s.Pods[0].Spec.PriorityClassName = "high"
	s = settled(t, s)
	for i, want := range []corev1.ResourceList{list("limits.cpu", "4"), list("pods", "1"),
		list("requests.memory", "8Gi")} {
		if d := diff(want, s.Quotas[i].Spec.Hard); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.Quotas[i].Name, d)
		}
	}
}

// a drain has more migrations than KubeVirt does at once
func TestAPendingMigrationKeepsItsReservation(t *testing.T) {
	s := settled(t, pending(hard(list("limits.cpu", "2"), nil)))
	s.Now = start().Add(24 * time.Hour)
	wantHard(t, settled(t, s), list("limits.cpu", "4"))
}

func TestATargetReplacesTheEstimate(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	s = settled(t, s)
	s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
	s = settled(t, s)
	if r := reservation(t, s); r.Spec.From != v1alpha1.Rendered ||
		r.Status.Target.Name != "target" {
		t.Errorf("%+v: want the target's charge", r)
	}
}

func TestDrain(t *testing.T) {
	s := snapshot(hard(list("limits.cpu", "200", "pods", "100"), nil))
	s.VMIs = nil
	for i := range 100 {
		vm := fmt.Sprintf("vm-%03d", i)
		s.VMIs = append(s.VMIs, quota.VMI{Name: vm, UID: types.UID(vm)})
		s.Pods = append(s.Pods, launcher(vm, vm, "2", "4Gi"))
		s.Migrations = append(s.Migrations, migration("m-"+vm, vm, kubevirtv1.MigrationPending))
	}
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "400", "pods", "200"))
	for i, m := range s.Migrations {
		m.Status.Phase = kubevirtv1.MigrationSucceeded
		s.Pods = append(s.Pods, target("t-"+s.VMIs[i].Name, s.VMIs[i].Name, m.Name, "2", "4Gi"))
		ended(s.Pods[i])
	}
	wantNothing(t, settled(t, s), list("limits.cpu", "200", "pods", "100"))
}

func TestAStoredPodIsStillCounted(t *testing.T) {
	base := list("limits.cpu", "2", "count/pods", "1")
	s := moving(t, base)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	ended(s.Pods[0])
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "2", "count/pods", "2"))
	s.Pods = s.Pods[1:]
	wantNothing(t, settled(t, s), base)
}

func TestADeletedPodIsChargedForItsGracePeriodOnceMore(t *testing.T) {
	base := list("limits.cpu", "2")
	s := moving(t, base)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	s.Pods[0].DeletionTimestamp, s.Pods[0].DeletionGracePeriodSeconds = &metav1.Time{Time: s.Now},
		new(int64(30))
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "4"))
	s.Now = quota.MakePlan(s, quota.Options{}).NextPlan
	if want := start().Add(31 * time.Second); !s.Now.Equal(want) {
		t.Fatalf("again at %s, want %s", s.Now, want)
	}
	wantNothing(t, settled(t, s), base)
}

func TestDeletedReservationStillCounts(t *testing.T) {
	s := moving(t, list("limits.cpu", "2"))
	s.Reservations[0].DeletionTimestamp = &metav1.Time{Time: s.Now}
	wantHard(t, settled(t, s), list("limits.cpu", "4"))
	s.Reservations[0].DeletionTimestamp, s.Reservations[0].Finalizers = nil, nil
	if s = settled(t, s); !slices.Contains(reservation(t, s).Finalizers, v1alpha1.Finalizer) {
		t.Error("want the finalizer back")
	}
}

func TestOptingOutInTheMiddle(t *testing.T) {
	base := list("limits.cpu", "2")
	s := moving(t, base)
	s.Quotas[0].Annotations["harvesterhci.io/skipResourceQuotaAutoScaling"] = "true"
	wantHard(t, settled(t, s), base)
}

func TestTooManyVMsForAnAnnotation(t *testing.T) {
	s := snapshot(hard(list("limits.cpu", "2000"), nil))
	for i := range 1000 {
		vm := fmt.Sprintf("vm-%0100d", i)
		s.VMIs = append(s.VMIs, quota.VMI{Name: vm, UID: types.UID(vm)})
		s.Pods = append(s.Pods, launcher(vm, vm, "2", "4Gi"))
		s.Migrations = append(s.Migrations, migration("m-"+vm, vm, kubevirtv1.MigrationPending))
	}
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "4000"))
	if text, ok := s.Quotas[0].Annotations["harvesterhci.io/migratingVMs"]; ok {
		t.Errorf("an annotation of %d bytes", len(text))
	}
}

func TestNamespaceGoing(t *testing.T) {
	s := moving(t, list("limits.cpu", "2"))
	s.Namespace.DeletionTimestamp = &metav1.Time{Time: s.Now}
	if s = settled(t, s); len(s.Reservations) != 1 {
		t.Fatal("released while both pods are charged")
	}
	s.Pods, s.Quotas = nil, nil
	if s = settled(t, s); len(s.Reservations) > 0 {
		t.Error("a finalizer holds the namespace up")
	}
}

func TestASnapshotIsNotChanged(t *testing.T) {
	s := moving(t, list("limits.cpu", "2", "count/pods", "3"))
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	ended(s.Pods[0])
	before := copied(s)
	quota.MakePlan(s, quota.Options{})
	if d := cmp.Diff(before, s); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
}

// A later migration does not delay a granted one or cause a write of its reservation.
func TestGrantedStaysGranted(t *testing.T) {
	s := snapshot(hard(list("limits.cpu", "4", "pods", "2"), nil))
	s.VMIs = []quota.VMI{{Name: "vm", UID: "vm"}, {Name: "other", UID: "other"}}
	s.Pods = []*corev1.Pod{launcher("source", "vm", "2", "4Gi"),
		launcher("another", "other", "2", "4Gi")}
	s.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{
		migration("m", "vm", kubevirtv1.MigrationPending)}
	s = settled(t, s)
	s.Migrations = append(s.Migrations, migration("later", "other", kubevirtv1.MigrationPending))
	w := worldOf(s)
	for range 3 {
		for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
			if u, ok := a.(quota.UpdateStatus); ok && u.Reservation.Name == "m" {
				t.Errorf("written again: %+v", u.Reservation.Status)
			}
			if err := w.do(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantPhases(t, w, map[string]v1alpha1.Phase{"m": v1alpha1.PhaseGranted,
		"later": v1alpha1.PhaseReserved})
	w.follow()
	for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
		if err := w.do(a); err != nil {
			t.Fatal(err)
		}
	}
	wantPhases(t, w, map[string]v1alpha1.Phase{"m": v1alpha1.PhaseGranted,
		"later": v1alpha1.PhaseGranted})
}

func wantPhases(t *testing.T, w *world, want map[string]v1alpha1.Phase) {
	t.Helper()
	got := map[string]v1alpha1.Phase{}
	for _, r := range w.snapshot().Reservations {
		if got[r.Name] = r.Status.Phase; r.Status.Phase == "" {
			got[r.Name] = v1alpha1.PhaseReserved
		}
	}
	if d := diff(want, got); d != "" {
		t.Errorf("phases (-want +got):\n%s", d)
	}
}
