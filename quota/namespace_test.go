package quota_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// raisedNamespace returns a full namespace with a raised quota and both pods of a migration.
func raisedNamespace(t *testing.T) (*world, *kubevirtv1.VirtualMachineInstanceMigration) {
	t.Helper()
	w := fullNamespace("4Gi", "4Gi")
	m := migration("m", "vm0", kubevirtv1.MigrationPending)
	w.s.Migrations = append(w.s.Migrations, m)
	w.control(t)
	m.Status.Phase = kubevirtv1.MigrationRunning
	w.charge(target("target", "vm0", "m", "1", "4Gi"))
	w.control(t)
	wantHard(t, w.snapshot(), list("limits.memory", "8Gi"))
	return w, m
}

// plan runs the controller until it has nothing to write. kube-controller-manager stands still.
func (w *world) plan(t *testing.T) {
	t.Helper()
	for range 5 {
		actions := quota.MakePlan(w.snapshot(), quota.Options{}).Actions
		for _, a := range actions {
			if err := w.do(a); err != nil {
				t.Fatalf("%T: %v", a, err)
			}
		}
		if len(actions) == 0 {
			return
		}
	}
	t.Fatal("the plan has no end")
}

// TestGuardOutlastsTheReservation lowers a quota while kube-controller-manager stands still. The
// API server still has room above the base then, and the guard must keep other pods out of it.
func TestGuardOutlastsTheReservation(t *testing.T) {
	w, m := raisedNamespace(t)
	m.Status.Phase = kubevirtv1.MigrationSucceeded
	ended(w.running("vm0")[0])
	w.plan(t)
	wantHard(t, w.snapshot(), list("limits.memory", "4Gi"))
	if len(w.s.Reservations) > 0 {
		t.Fatalf("%d reservations are left", len(w.s.Reservations))
	}
	pod := plainPod("plain", "1")
	if !w.admits(pod) {
		t.Fatal("status.hard has no room above the base: the test shows nothing")
	}
	if w.admitsOther(pod) {
		t.Error("a plain pod got room above the base")
	}
	w.s.Namespace.Labels = nil // by another client
	w.plan(t)
	if w.admitsOther(pod) {
		t.Error("a plain pod got room above the base after the removal of the label")
	}
	w.follow()
	w.plan(t)
	wantNothing(t, w.snapshot(), list("limits.memory", "4Gi"))
}

// A quota that its owner lowers gets no label: Mooring has never raised it.
func TestNoGuardForALoweredQuota(t *testing.T) {
	w := fullNamespace("4Gi", "1Gi")
	w.s.Quotas[0].Spec.Hard = list("limits.memory", "2Gi")
	w.plan(t)
	wantNothing(t, w.snapshot(), list("limits.memory", "2Gi"))
}

// The base of a quota with an unreadable annotation is unknown. The guard then refuses other pods.
func TestGuardStaysWithAnUnreadableBase(t *testing.T) {
	w, m := raisedNamespace(t)
	w.s.Quotas[0].Annotations[quota.BaseAnnotation] = "four"
	m.Status.Phase = kubevirtv1.MigrationSucceeded
	ended(w.running("vm0")[0])
	w.plan(t)
	if w.s.Namespace.Labels[quota.ReservedLabel] != "true" {
		t.Error("the label is gone, and the quota is raised")
	}
	w.s.Namespace.Labels = nil
	w.plan(t)
	if w.s.Namespace.Labels[quota.ReservedLabel] != "true" {
		t.Error("the label was not restored")
	}
}

// keptNamespace is a namespace with count/pods in which KubeVirt keeps the ended source pod of a
// migration. Other pods use more memory than the base.
func keptNamespace(t *testing.T) *world {
	t.Helper()
	s := snapshot(hard(list("count/pods", "2", "limits.memory", "7Gi"), nil))
	source, other := launcher("source", "vm", "1", "3Gi"), launcher("other", "", "1", "4Gi")
	other.Labels = nil
	s.Pods = []*corev1.Pod{source, other}
	w := worldOf(s)
	w.follow()
	m := migration("m", "vm", kubevirtv1.MigrationPending)
	w.s.Migrations = append(w.s.Migrations, m)
	w.s.Quotas[0].Spec.Hard = list("count/pods", "2", "limits.memory", "3Gi") // lowered
	w.control(t)
	m.Status.Phase = kubevirtv1.MigrationRunning
	w.charge(target("target", "vm", "m", "1", "3Gi"))
	w.control(t)
	m.Status.Phase = kubevirtv1.MigrationSucceeded
	ended(w.running("vm")[0])
	w.control(t)
	return w
}

// The ended source pod uses count/pods. The quota keeps this room, and nothing else above the base.
func TestOnlyTheStoredPodIsKept(t *testing.T) {
	w := keptNamespace(t)
	wantHard(t, w.snapshot(), list("count/pods", "3", "limits.memory", "3Gi"))
	if len(w.s.Namespace.Labels) > 0 {
		t.Errorf("labels %v: nothing is reserved that another pod could take", w.s.Namespace.Labels)
	}
}

// The use above the base counts for the next migration, as for the first one.
func TestOverrunBesideAStoredPod(t *testing.T) {
	w := keptNamespace(t)
	m := migration("m2", "vm", kubevirtv1.MigrationPending)
	w.s.Migrations = append(w.s.Migrations, m)
	w.control(t)
	if pod := target("target2", "vm", "m2", "1", "3Gi"); !w.admits(pod) {
		t.Errorf("the second target is not admitted: hard %v, used %v", w.s.Quotas[0].Spec.Hard,
			w.used(w.s.Quotas[0]))
	}
}

// The room of a stored pod is not the room of another pod, and does not take it either.
func TestFreeBesideAStoredPod(t *testing.T) {
	w := keptNamespace(t)
	w.s.Pods = append(w.s.Pods[:1:1], w.s.Pods[2:]...) // without the plain pod
	w.control(t)
	accounts, _ := quota.Accounts(w.snapshot(), quota.Options{})
	if d := diff(list("count/pods", "1", "limits.memory", "0"), accounts[0].Free()); d != "" {
		t.Errorf("free (-want +got):\n%s", d)
	}
}

// KubeVirt keeps the source pod also after a user has deleted the migration.
func TestStoredPodAfterTheMigration(t *testing.T) {
	w := keptNamespace(t)
	w.s.Migrations = nil
	w.control(t)
	wantHard(t, w.snapshot(), list("count/pods", "3", "limits.memory", "3Gi"))
	w.s.Pods = w.s.Pods[1:] // the source pod is deleted
	w.control(t)
	wantNothing(t, w.snapshot(), list("count/pods", "2", "limits.memory", "3Gi"))
}

// The pod with hot-plugged disks of an ended launcher uses count/pods, too.
func TestStoredAttachmentPodIsKept(t *testing.T) {
	s := snapshot(hard(list("count/pods", "2"), nil))
	source := launcher("source", "vm", "1", "3Gi")
	disks := attachment(source)
	s.Pods = []*corev1.Pod{source, disks}
	w := worldOf(s)
	w.follow()
	m := migration("m", "vm", kubevirtv1.MigrationPending)
	w.s.Migrations = append(w.s.Migrations, m)
	w.control(t)
	wantHard(t, w.snapshot(), list("count/pods", "4"))
	m.Status.Phase = kubevirtv1.MigrationRunning
	pod := target("target", "vm", "m", "1", "3Gi")
	w.charge(pod)
	w.charge(attachment(pod))
	w.control(t)
	m.Status.Phase = kubevirtv1.MigrationSucceeded
	ended(source)
	ended(disks)
	w.s.Pods[0], w.s.Pods[1] = source, disks
	w.control(t)
	wantHard(t, w.snapshot(), list("count/pods", "4"))
	w.s.Pods = w.s.Pods[2:]
	w.control(t)
	wantNothing(t, w.snapshot(), list("count/pods", "2"))
}

// TestNoRaiseWithoutTheGuard: without the proof of the guard the quota stays as it is, and the
// condition names the reason.
func TestNoRaiseWithoutTheGuard(t *testing.T) {
	w := fullNamespace("4Gi", "4Gi")
	m := migration("m", "vm0", kubevirtv1.MigrationPending)
	with(m, kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	w.s.Migrations = append(w.s.Migrations, m)
	w.s.Unguarded = "no answer"
	w.control(t)
	wantHard(t, w.snapshot(), list("limits.memory", "4Gi"))
	if w.s.Namespace.Labels[quota.ReservedLabel] != "true" {
		t.Error("the namespace has no label: the guard cannot work")
	}
	wantWaiting(t, w, "WaitingForGuard", "no answer")
	if !quota.MakePlan(w.snapshot(), quota.Options{}).ProveGuard {
		t.Error("the plan does not ask for a proof")
	}
	w.s.Unguarded = ""
	w.plan(t)
	wantHard(t, w.snapshot(), list("limits.memory", "8Gi"))
	w.s.Unguarded = "the proof is old" // a raised quota stays
	w.plan(t)
	wantHard(t, w.snapshot(), list("limits.memory", "8Gi"))
	wantWaiting(t, w, "WaitingForQuota", "status.hard")
}

// wantWaiting checks the condition Waiting of the only reservation.
func wantWaiting(t *testing.T, w *world, reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(w.s.Reservations[0].Status.Conditions, v1alpha1.ConditionWaiting)
	if c == nil || c.Status != "True" || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Errorf("condition %+v, want %s with %q", c, reason, message)
	}
}
