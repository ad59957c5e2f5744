package quota_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// Defects of the predecessor of this controller, with the issues of its users. Defects of the
// charge are in charge_test.go, defects of the base in base_test.go.

// reserved returns a snapshot with a migration "m" of "vm" and a raised quota.
func reserved(t *testing.T, limits corev1.ResourceList, more ...*corev1.Pod) quota.Snapshot {
	t.Helper()
	s := snapshot(hard(limits, nil))
	s.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{
		migration("m", "vm", kubevirtv1.MigrationPending)}
	s.Pods = append([]*corev1.Pod{launcher("source", "vm", "2", "4Gi")}, more...)
	return settled(t, s)
}

// moving is reserved with an existing target pod.
func moving(t *testing.T, limits corev1.ResourceList) quota.Snapshot {
	t.Helper()
	s := reserved(t, limits)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationRunning
	s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
	s = settled(t, s)
	if got := reservation(t, s).Status.Phase; got != v1alpha1.PhaseCharged {
		t.Fatalf("phase %s, want Charged", got)
	}
	return s
}

func TestDefect1TheVMIIsGoneAtTheEnd(t *testing.T) {
	base := list("limits.cpu", "2", "limits.memory", "4Gi")
	for name, lose := range map[string]func(s *quota.Snapshot){
		"VMI": func(s *quota.Snapshot) { s.VMIs = nil },
		"VMI and migration": func(s *quota.Snapshot) {
			s.VMIs, s.Migrations = nil, nil
		},
		"VMI, and the migration failed": func(s *quota.Snapshot) {
			s.VMIs = nil
			s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
		},
		"VMI, and the migration succeeded": func(s *quota.Snapshot) {
			s.VMIs = nil
			s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := moving(t, base)
			lose(&s)
			if s = settled(t, s); len(s.Reservations) != 1 {
				t.Fatal("released while both pods are charged")
			}
			s.Pods = nil
			wantNothing(t, settled(t, s), base)
		})
	}
}

func TestDefect2TheSourceIsChargedAfterTheEnd(t *testing.T) {
	base := list("limits.cpu", "2", "limits.memory", "4Gi", "requests.memory", "4Gi")
	s := moving(t, base)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "4", "limits.memory", "8Gi", "requests.memory", "8Gi"))
	if got := reservation(t, s).Status.Phase; got != v1alpha1.PhaseReleasing {
		t.Errorf("phase %s, want Releasing", got)
	}
	ended(s.Pods[0])
	wantNothing(t, settled(t, s), base)
}

func TestAFailedMigrationIsReleasedWithItsTarget(t *testing.T) {
	base := list("limits.cpu", "2", "limits.memory", "4Gi")
	s := moving(t, base)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "4", "limits.memory", "8Gi"))
	ended(s.Pods[1])
	wantNothing(t, settled(t, s), base)
}

func TestDefect3TwoMigrationsOfOneVM(t *testing.T) {
	base := list("limits.cpu", "2", "limits.memory", "4Gi")
	s := moving(t, base)
	second := migration("n", "vm", kubevirtv1.MigrationPending)
	second.CreationTimestamp.Time = start().Add(time.Minute)
	s.Migrations = append(s.Migrations, second)
	if s = settled(t, s); reservation(t, s).Name != "m" {
		t.Fatal("the second has to wait for the first")
	}
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "6", "limits.memory", "12Gi"))
	ended(s.Pods[0])
	s = settled(t, s)
	if got := reservation(t, s); got.Name != "n" || got.Spec.Source.Name != "target" {
		t.Errorf("reserved for %s from %v, want n from target", got.Name, got.Spec.Source)
	}
	s.Migrations = s.Migrations[1:] // a late end of the first keeps the second's reservation
	wantHard(t, settled(t, s), list("limits.cpu", "4", "limits.memory", "8Gi"))
}

func TestDefect4OnlyResourcesOfTheQuota(t *testing.T) { // and the review of PR 3829
	for _, base := range []corev1.ResourceList{
		list("limits.memory", "4Gi"), list("requests.cpu", "2"), list("pods", "1"),
		list("limits.cpu", "0"), list("services", "1", "memory", "1"),
	} {
		s := reserved(t, base)
		want := base.DeepCopy()
		for name, q := range quota.Charge(s.Pods[0]) {
			if had, ok := want[name]; ok {
				if had.Cmp(q) < 0 {
					had = q.DeepCopy() // the source uses more than the base
				}
				had.Add(q)
				want[name] = had
			}
		}
		wantHard(t, s, want)
	}
}

func TestDefect6HotplugAttachmentPods(t *testing.T) {
	base := list("limits.cpu", "3", "pods", "2")
	s := reserved(t, base, attachment(launcher("source", "vm", "2", "4Gi")))
	wantHard(t, s, list("limits.cpu", "5100m", "pods", "4"))
	s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "5100m", "pods", "4"))
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	ended(s.Pods[0])
	if s = settled(t, s); len(s.Reservations) != 1 {
		t.Fatal("released while the source's attachment pod is charged")
	}
	ended(s.Pods[1])
	wantNothing(t, settled(t, s), base)
}

func TestDefects7And8ChargeOfTheTargetPod(t *testing.T) { // #9753: overhead ratio 1.5 to 4.5
	base := list("limits.cpu", "2", "limits.memory", "4797464313")
	s := snapshot(hard(base, nil))
	s.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{
		migration("m", "vm", kubevirtv1.MigrationPending)}
	s.Pods = []*corev1.Pod{launcher("source", "vm", "2", "4797464313")}
	s = settled(t, s)
	larger := target("target", "vm", "m", "3", "5682461313")
	seen := quota.Reserve(v1alpha1.RoleLauncher, larger)
	s.Reservations[0].Annotations = map[string]string{
		quota.TargetAnnotation: quota.FormatRendered(seen)}
	if actions := quota.MakePlan(s, quota.Options{}).Actions; len(actions) > 0 {
		t.Errorf("actions %+v for a pod that KubeVirt does not say to have been rejected", actions)
	}
	with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	p := quota.MakePlan(s, quota.Options{})
	if len(p.Reports) == 0 || p.Reports[0].Reason != quota.ReasonGrown ||
		!strings.Contains(p.Reports[0].Message, "limits.memory=844Mi") {
		t.Errorf("reports %+v: want one of a larger target", p.Reports)
	}
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "5", "limits.memory", "10479925626"))

	s.Pods = append(s.Pods, larger)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	ended(s.Pods[0])
	s = settled(t, s)
	wantNothing(t, s, base)
	want := []quota.Overrun{
		{Quota: "quota", Excess: list("limits.cpu", "1", "limits.memory", "884997000")}}
	if d := diff(want, quota.MakePlan(s, quota.Options{}).Overruns); d != "" {
		t.Errorf("overruns (-want +got):\n%s", d)
	}
}

func TestDefect9OneWriteOfTheQuotaUpAndOneDown(t *testing.T) {
	s := snapshot(hard(list("limits.cpu", "2"), nil))
	s.Pods = []*corev1.Pod{launcher("source", "vm", "2", "4Gi")}
	w := worldOf(s)
	writes := 0
	run := func() {
		for range 4 {
			for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
				if q, ok := a.(quota.WriteQuota); ok &&
					diff(q.Hard, w.s.Quotas[0].Spec.Hard) != "" {
					writes++
				}
				if err := w.do(a); err != nil {
					t.Fatal(err)
				}
			}
			w.follow()
		}
	}
	w.s.Migrations = append(w.s.Migrations, migration("m", "vm", kubevirtv1.MigrationPending))
	run()
	w.s.Pods = append(w.s.Pods, target("target", "vm", "m", "2", "4Gi"))
	run()
	w.s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	run()
	ended(w.s.Pods[0])
	run()
	if writes != 2 {
		t.Errorf("%d writes of spec.hard, want 2", writes)
	}
}

func TestDefect10DeathAfterEachWrite(t *testing.T) {
	base := list("limits.cpu", "2", "count/pods", "5")
	for writes := range 3 {
		w := worldOf(moving(t, base))
		w.s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
		w.s.Pods = w.s.Pods[1:]
		for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions[:writes] {
			if err := w.do(a); err != nil {
				t.Fatal(err)
			}
		}
		w.follow()
		wantNothing(t, settled(t, w.snapshot()), base)
	}
}

func TestIssue3124ThreeLargeVMsInAFullQuota(t *testing.T) {
	base := list("limits.memory", "64Gi")
	s := snapshot(hard(base, nil))
	s.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{
		migration("m", "vm", kubevirtv1.MigrationPending)}
	for _, vm := range []string{"vm", "b", "c"} {
		s.Pods = append(s.Pods, launcher(vm, vm, "1", "17405661185"))
	}
	s = settled(t, s)
	wantHard(t, s, list("limits.memory", "86125137921"))
	if w := worldOf(s); !w.admits(target("target", "vm", "m", "1", "17405661185")) {
		t.Error("the target is refused")
	}
}

func TestIssue7178AResetInTheMiddleIsHealed(t *testing.T) {
	base := list("limits.cpu", "30")
	s := moving(t, base)
	s.Quotas[0].Spec.Hard = base.DeepCopy()
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "32"))
	s.Quotas[0].Spec.Hard = base.DeepCopy()
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	ended(s.Pods[0])
	wantNothing(t, settled(t, s), base)
}

func TestIssue7464LongNames(t *testing.T) {
	long := strings.Repeat("v", 253)
	s := snapshot(hard(list("limits.cpu", "2"), nil))
	s.VMIs[0].Name = long
	s.Migrations = []*kubevirtv1.VirtualMachineInstanceMigration{
		migration("m", long, kubevirtv1.MigrationPending)}
	s.Pods = []*corev1.Pod{launcher("source", "vm", "2", "4Gi")}
	s = settled(t, s)
	if got, want := s.Quotas[0].Annotations["harvesterhci.io/migratingVMs"],
		`{"`+long+`":{"limits.cpu":"2"}}`; got != want {
		t.Errorf("annotation %s, want %s", got, want)
	}
}

func TestIssue7585CachesReleaseNothing(t *testing.T) {
	s := moving(t, list("limits.cpu", "2"))
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	s.Pods, s.Live = nil, false
	p := quota.MakePlan(s, quota.Options{})
	for _, a := range p.Actions {
		if _, ok := a.(quota.UpdateStatus); !ok {
			t.Errorf("%T from a cache", a)
		}
	}
	if !p.NeedsLive {
		t.Error("want a request for a live snapshot")
	}
	s.Reservations = nil // a cache may lack the ledger, too
	if p := quota.MakePlan(s, quota.Options{}); len(p.Actions) > 0 || !p.NeedsLive {
		t.Errorf("%+v: want only a request for a live snapshot", p)
	}
}

func TestIssue3974OverrunIsReported(t *testing.T) {
	s := snapshot(hard(list("limits.cpu", "1", "services", "1"),
		list("limits.cpu", "2", "services", "2")))
	want := []quota.Overrun{{Quota: "quota", Excess: list("limits.cpu", "1")}}
	if d := diff(want, quota.MakePlan(s, quota.Options{}).Overruns); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
