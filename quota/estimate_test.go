package quota_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

const rejectedByQuota = kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota

// rejected returns a snapshot with a granted reservation that is too small: KubeVirt reports a
// rejected target pod.
func rejected(t *testing.T) quota.Snapshot {
	t.Helper()
	s := settled(t, pending(hard(list("limits.cpu", "2", "limits.memory", "4Gi"), nil)))
	with(s.Migrations[0], rejectedByQuota)
	return settled(t, s)
}

// estimated sets the estimate of the VM's target pod.
func estimated(s quota.Snapshot, cpu, memory string) quota.Snapshot {
	pod := quota.Reserve(v1alpha1.RoleLauncher, target("", "vm", "m", cpu, memory))
	s.Estimates = map[types.UID]v1alpha1.ReservedPod{"vm": pod}
	return s
}

func wantOrigin(t *testing.T, s quota.Snapshot, want v1alpha1.ChargeOrigin) {
	t.Helper()
	if got := reservation(t, s).Spec.From; got != want {
		t.Errorf("the charge is %s, want %s", got, want)
	}
}

func TestEstimateRaisesReservation(t *testing.T) {
	s := estimated(rejected(t), "1", "6Gi")
	reports := quota.MakePlan(s, quota.Options{}).Reports
	if len(reports) != 1 || reports[0].Reason != quota.ReasonGrown ||
		!strings.Contains(reports[0].Message, "probably needs limits.memory=2Gi more") {
		t.Errorf("reports %+v: want one about 2Gi more", reports)
	}
	s = settled(t, s)
	larger := list("limits.cpu", "4", "limits.memory", "10Gi") // source: 2 CPUs, estimate: 6Gi
	wantHard(t, s, larger)
	wantOrigin(t, s, v1alpha1.Computed)

	s.Estimates = nil // the estimate failed the second time
	wantHard(t, settled(t, s), larger)
	s.Migrations[0].Status.Conditions = nil
	wantHard(t, settled(t, s), larger)
	s.Pods = append(s.Pods, target("target", "vm", "m", "2", "5Gi"))
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "4", "limits.memory", "9Gi"))
	wantOrigin(t, s, v1alpha1.Rendered)
}

func TestSmallerEstimateIsIgnored(t *testing.T) {
	s := estimated(rejected(t), "2", "3Gi")
	if p := quota.MakePlan(s, quota.Options{}); len(p.Actions)+len(p.Reports) > 0 {
		t.Errorf("%+v", p)
	}
	wantOrigin(t, s, v1alpha1.Estimated)
	s = settled(t, estimated(s, "2", "6Gi"))
	s = settled(t, estimated(s, "2", "3Gi")) // KubeVirt's settings are back
	wantHard(t, s, list("limits.cpu", "4", "limits.memory", "8Gi"))
	wantOrigin(t, s, v1alpha1.Estimated)
}

// TestWebhookRecordBeatsEstimate: the webhook's record of the target has precedence.
func TestWebhookRecordBeatsEstimate(t *testing.T) {
	s := settled(t, estimated(rejected(t), "2", "6Gi"))
	noted := quota.Reserve(v1alpha1.RoleLauncher, target("", "vm", "m", "3", "5Gi"))
	s.Reservations[0].Annotations = map[string]string{
		quota.TargetAnnotation: quota.FormatRendered(noted)}
	s = settled(t, s)
	wantHard(t, s, list("limits.cpu", "5", "limits.memory", "9Gi"))
	wantOrigin(t, s, v1alpha1.Rendered)
}

func TestVMIsToEstimate(t *testing.T) {
	if d := diff([]quota.VMI{{Name: "vm", UID: "vm"}}, quota.VMIsToEstimate(rejected(t))); d != "" {
		t.Fatalf("(-want +got):\n%s", d)
	}
	for name, change := range map[string]func(*quota.Snapshot){
		"not rejected": func(s *quota.Snapshot) {
			s.Migrations[0].Status.Conditions = nil
		},
		"no reservations": func(s *quota.Snapshot) { s.Reservations = nil },
		"not granted yet": func(s *quota.Snapshot) {
			s.Reservations[0].Status.Phase = v1alpha1.PhaseReserved
		},
		"it has a target": func(s *quota.Snapshot) {
			s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
		},
		"the migration failed": func(s *quota.Snapshot) {
			s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
		},
		"the migration is gone": func(s *quota.Snapshot) { s.Migrations = nil },
		"the VM is gone":        func(s *quota.Snapshot) { s.VMIs = nil },
		"it was seen": func(s *quota.Snapshot) {
			pod := quota.FormatRendered(quota.Reserve(v1alpha1.RoleLauncher,
				target("", "vm", "m", "2", "4Gi")))
			s.Reservations[0].Annotations = map[string]string{quota.TargetAnnotation: pod}
		},
	} {
		s := copied(rejected(t))
		change(&s)
		if got := quota.VMIsToEstimate(s); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
