package quota_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// rejectedPlan returns a settled snapshot with a migration that a quota rejects.
func rejectedPlan(t *testing.T, limits corev1.ResourceList) quota.Snapshot {
	t.Helper()
	s := pending(hard(limits, nil))
	with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	return settled(t, s)
}

func condition(t *testing.T, s quota.Snapshot, kind string) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(reservation(t, s).Status.Conditions, kind)
	if c == nil {
		t.Fatalf("no condition %s: %+v", kind, reservation(t, s).Status)
	}
	return *c
}

// kube-controller-manager stands still for a day: status.hard does not follow spec.hard.
func TestAStandstillKeepsTheReservation(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), list("limits.cpu", "2")))
	with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	w := worldOf(s)
	for range 24 {
		w.pass(time.Hour)
		for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
			if err := w.do(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantHard(t, w.snapshot(), list("limits.cpu", "4"))
	if c := condition(t, w.snapshot(), v1alpha1.ConditionWaiting); c.Reason != "WaitingForQuota" ||
		c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v, want Waiting for the quota", c)
	}
	w.follow()
	if s = settled(t, w.snapshot()); reservation(t, s).Status.Phase != v1alpha1.PhaseGranted {
		t.Errorf("phase %s, want Granted", reservation(t, s).Status.Phase)
	}
}

// KubeVirt can miss the update of a quota. A later update makes it retry.
func TestRetriesOfARejectedTarget(t *testing.T) {
	s := rejectedPlan(t, list("limits.cpu", "2"))
	if c := condition(t, s, v1alpha1.ConditionWaiting); c.Reason != "RetryPending" {
		t.Errorf("condition %+v, want reason RetryPending", c)
	}
	var gaps []time.Duration
	for last := s.Now; len(gaps) < 8; last = s.Now {
		p := quota.MakePlan(s, quota.Options{})
		if !p.NextPlan.After(s.Now) {
			t.Fatalf("next plan at %s, now it is %s", p.NextPlan, s.Now)
		}
		s.Now = p.NextPlan
		s = settled(t, s)
		if got := s.Quotas[0].Annotations[quota.RetryAnnotation]; got !=
			s.Now.Format(time.RFC3339) {
			t.Fatalf("retry %q at %s", got, s.Now)
		}
		gaps = append(gaps, s.Now.Sub(last))
	}
	for i, want := range []float64{10, 10, 20, 40, 80, 160, 300, 300} {
		if gaps[i].Seconds() != want {
			t.Errorf("gaps %s, want 10 s that double, and 5 min at most", gaps)
			break
		}
	}
	s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
	s = settled(t, s)
	if c := condition(t, s, v1alpha1.ConditionWaiting); c.Status != metav1.ConditionFalse {
		t.Errorf("condition %+v although the target exists", c)
	}
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
	ended(s.Pods[1])
	wantNothing(t, settled(t, s), list("limits.cpu", "2"))
}

// Other pods use more than the base. The quota rejects the target, and the status says why.
func TestAShortageIsNamed(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	s.Pods = append(s.Pods, plainPod("plain", "1"))
	with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	p := quota.MakePlan(s, quota.Options{})
	for range 3 {
		s = carry(t, s, p)
		p = quota.MakePlan(s, quota.Options{})
		if len(p.Reports) > 0 {
			break
		}
	}
	const want = "ResourceQuota quota lacks limits.cpu=1"
	if len(p.Reports) != 1 || p.Reports[0].Reason != quota.ReasonWaiting ||
		!strings.Contains(p.Reports[0].Message, want) {
		t.Errorf("reports %+v, want one with %q", p.Reports, want)
	}
	s = settled(t, s)
	for _, kind := range []string{v1alpha1.ConditionGranted, v1alpha1.ConditionWaiting} {
		if c := condition(t, s, kind); c.Reason != "QuotaFull" ||
			!strings.Contains(c.Message, want) {
			t.Errorf("condition %+v, want QuotaFull with %q", c, want)
		}
	}
	s.Pods = s.Pods[:1] // the plain pod ends
	w := worldOf(s)
	w.follow()
	if s = settled(t, w.snapshot()); condition(t, s, v1alpha1.ConditionGranted).Status !=
		metav1.ConditionTrue {
		t.Errorf("status %+v, want it granted", reservation(t, s).Status)
	}
}

// A clock was wrong, or a user wrote the annotation. A time in the future delays no retry.
func TestTimesInTheFuture(t *testing.T) {
	for name, change := range map[string]func(s *quota.Snapshot, to time.Time){
		"retry": func(s *quota.Snapshot, to time.Time) {
			s.Quotas[0].Annotations[quota.RetryAnnotation] = to.Format(time.RFC3339)
		},
		"rejection": func(s *quota.Snapshot, to time.Time) {
			meta.FindStatusCondition(s.Reservations[0].Status.Conditions,
				v1alpha1.ConditionWaiting).LastTransitionTime.Time = to
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := rejectedPlan(t, list("limits.cpu", "2"))
			change(&s, s.Now.Add(365*24*time.Hour))
			for range 3 {
				s = settled(t, s)
				next := quota.MakePlan(s, quota.Options{}).NextPlan
				if wait := next.Sub(s.Now); wait <= 0 || wait > 20*time.Second {
					t.Fatalf("next plan after %s, want 20 s at most", wait)
				}
				s.Now = next
				s = settled(t, s)
				if got := s.Quotas[0].Annotations[quota.RetryAnnotation]; got !=
					s.Now.Format(time.RFC3339) {
					t.Fatalf("retry %q at %s", got, s.Now)
				}
			}
		})
	}
}

// A plain pod fills the quota and ends. The change of status.used is no event for the controller,
// so it plans again without one, with doubled delays.
func TestAFullQuotaIsCheckedAgain(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	s.Pods = append(s.Pods, plainPod("plain", "1"))
	with(s.Migrations[0], kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	s = settled(t, s)
	for _, seconds := range []int{10, 10, 20, 40, 80, 160, 300, 300} {
		if c := condition(t, s, v1alpha1.ConditionWaiting); c.Reason != "QuotaFull" {
			t.Fatalf("condition %+v, want reason QuotaFull", c)
		}
		next := quota.MakePlan(s, quota.Options{}).NextPlan
		if got := next.Sub(s.Now).Seconds(); got != float64(seconds) {
			t.Fatalf("next plan after %v s, want %d", got, seconds)
		}
		s.Now = next
		s = settled(t, s)
	}
	s.Pods = s.Pods[:1]
	w := worldOf(s)
	w.follow()
	w.s.Now = quota.MakePlan(s, quota.Options{}).NextPlan
	if s = settled(t, w.snapshot()); condition(t, s, v1alpha1.ConditionWaiting).Reason !=
		"RetryPending" {
		t.Errorf("status %+v, want a pending retry", reservation(t, s).Status)
	}
}

// The Deployment's pod takes a part of the maintenance share.
func TestMaintenanceShareTakenByOtherPods(t *testing.T) {
	s := pending(hard(list("limits.cpu", "4"), list("limits.cpu", "4")))
	s.Pods = []*corev1.Pod{launcher("source", "vm", "1", "1Gi")}
	s.Namespace.Annotations = map[string]string{
		"harvesterhci.io/maintenanceQuota": `{"limitsCpuPercent":50}`}
	w := worldOf(s)
	for range 3 {
		for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
			if err := w.do(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantHard(t, w.snapshot(), list("limits.cpu", "5"))
}

// kube-apiserver raises status.used before it stores a target pod. The plan does not count it
// as another pod, until a quota rejects the target pods.
func TestUseBeforeThePod(t *testing.T) {
	for name, c := range map[string]struct {
		base, share string
		sources     []*corev1.Pod
	}{
		"share": {"4", `{"limitsCpuPercent":50}`, []*corev1.Pod{
			launcher("source", "vm", "1", "1Gi"), launcher("other", "other", "1", "1Gi")}},
		"migrated launcher": {"2", `{}`, []*corev1.Pod{
			launcher("source", "vm", "1", "1Gi"), target("other", "other", "before", "1", "1Gi")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := pending(hard(list("limits.cpu", c.base), nil))
			s.Namespace = space(proposed, c.share)
			s.VMIs = append(s.VMIs, quota.VMI{Name: "other", UID: "other"})
			s.Migrations = append(s.Migrations,
				migration("n", "other", kubevirtv1.MigrationPending))
			s.Pods = c.sources
			s = settled(t, s)
			wantHard(t, s, list("limits.cpu", "4"))

			s.Quotas[0].Status.Used = list("limits.cpu", "3") // one target is charged
			if p := quota.MakePlan(s, quota.Options{}); len(p.Actions) > 0 {
				t.Errorf("actions %+v, want none", p.Actions)
			}
			for _, m := range s.Migrations { // no target is charged
				with(m, kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
			}
			wantHard(t, settledAt(t, s, list("limits.cpu", "3")), list("limits.cpu", "5"))
		})
	}
}

// KubeVirt starts the other one of two migrations of a VM. Its target pod uses the reservation.
func TestOtherMigrationOfTheVMStarts(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	s.Migrations = append(s.Migrations, migration("n", "vm", kubevirtv1.MigrationPending))
	if s = settled(t, s); reservation(t, s).Name != "m" {
		t.Fatalf("reserved for %s, want m", reservation(t, s).Name)
	}
	s.Migrations[1].Status.Phase = kubevirtv1.MigrationPreparingTarget
	s.Pods = append(s.Pods, target("target", "vm", "n", "2", "4Gi"))
	s = settledAt(t, s, list("limits.cpu", "4"))
	wantHard(t, s, list("limits.cpu", "4"))

	s.Migrations[1].Status.Phase = kubevirtv1.MigrationSucceeded
	ended(s.Pods[0])
	s = settledAt(t, s, list("limits.cpu", "2"))
	wantHard(t, s, list("limits.cpu", "4"))
	if c := condition(t, s, v1alpha1.ConditionGranted); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v, want the other migration granted", c)
	}
}

// settledAt is settled with a fixed use of the quota.
func settledAt(t *testing.T, s quota.Snapshot, used corev1.ResourceList) quota.Snapshot {
	t.Helper()
	for range 5 {
		s.Quotas[0].Status.Used = used
		p := quota.MakePlan(s, quota.Options{})
		if len(p.Actions) == 0 {
			return s
		}
		s = carry(t, s, p)
	}
	t.Fatal("no end")
	return s
}
