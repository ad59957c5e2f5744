package quota_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func account(t *testing.T, s quota.Snapshot) quota.Account {
	t.Helper()
	all, faults := quota.Accounts(s, quota.Options{})
	if len(all) != 1 || len(faults) > 0 {
		t.Fatalf("accounts %v, faults %v", all, faults)
	}
	return all[0]
}

func TestFree(t *testing.T) {
	base := list("limits.cpu", "5", "limits.memory", "8Gi")
	free := list("limits.cpu", "3", "limits.memory", "4Gi")
	s := pending(hard(base, nil))
	s = worldOf(s).snapshot()
	w := worldOf(s)
	w.follow()
	check := func(when string, s quota.Snapshot, want corev1.ResourceList) {
		t.Helper()
		if d := diff(want, account(t, s).Free()); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	check("before", w.snapshot(), free)
	s = settled(t, w.snapshot())
	check("reserved", s, free)
	lagging := copied(s)
	lagging.Quotas[0].Status.Hard = base
	check("reserved, and status.hard has not followed", lagging,
		list("limits.cpu", "1", "limits.memory", "0"))
	s.Pods = append(s.Pods, target("target", "vm", "m", "2", "4Gi"))
	w = worldOf(settled(t, s))
	w.follow()
	check("charged", w.snapshot(), free)
	w.s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
	ended(w.s.Pods[1])
	w.follow()
	check("failed, and not released yet", w.snapshot(), free)
	over := hard(list("limits.cpu", "1", "memory", "1Gi"), list("limits.cpu", "2"))
	check("overdrawn, and not known", snapshot(over), list("limits.cpu", "0"))
}

func TestCheckLeavesTheReservedShareAlone(t *testing.T) {
	w := worldOf(settled(t, pending(hard(list("limits.cpu", "5"), nil))))
	w.follow()
	a := account(t, w.snapshot())
	fits := quota.Reserve(v1alpha1.RoleLauncher, launcher("other", "other", "3", "1Gi"))
	if err := a.Check(fits); err != nil {
		t.Errorf("3 CPUs are free: %v", err)
	}
	err := a.Check(quota.Reserve(v1alpha1.RoleLauncher, launcher("other", "other", "4", "1Gi")))
	want := "ResourceQuota quota: limits.cpu: requested 4, free 3 (reserved for 1 migration: " +
		"limits.cpu=2)"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	a.Quota.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}
	if err := a.Check(quota.Reserve(v1alpha1.RoleLauncher,
		launcher("other", "other", "4", "1Gi"))); err != nil {
		t.Errorf("out of scope: %v", err)
	}
}

// TestClaimsAreNamed: VMs that claim room may have a launcher already, and grow.
func TestClaimsAreNamed(t *testing.T) {
	accounts := []quota.Account{account(t, snapshot(hard(list("limits.cpu", "3"),
		list("limits.cpu", "0"))))}
	one := quota.Reserve(v1alpha1.RoleLauncher, launcher("one", "one", "1", "1Gi"))
	large := quota.Reserve(v1alpha1.RoleLauncher, launcher("large", "large", "4", "1Gi"))
	for claims, want := range map[int]string{
		1: "(claimed by 1 pod that starts or grows: limits.cpu=1)",
		2: "(claimed by 2 pods that start or grow: limits.cpu=2)",
	} {
		claimed := quota.Claim(accounts, slices.Repeat([]v1alpha1.ReservedPod{one}, claims))
		if got := quota.Lacking(claimed, large); !strings.HasSuffix(got, want) {
			t.Errorf("%s: want %s at the end", got, want)
		}
	}
}

// TestAnOptedOutQuotaHasNoShares: an opted-out quota has no shares and limits no VM.
func TestAnOptedOutQuotaHasNoShares(t *testing.T) {
	base := list("limits.cpu", "4", "limits.memory", "8Gi")
	q := hard(base, list("limits.cpu", "3", "limits.memory", "5Gi"))
	q.Annotations = map[string]string{"harvesterhci.io/skipResourceQuotaAutoScaling": "true"}
	s := pending(q)
	s.Namespace = space(proposed, `{"limitsCpuPercent":50,"limitsMemoryPercent":50}`)
	s.Pods = append(s.Pods, target("target", "vm", "m", "1", "1Gi"))
	s = settled(t, s)
	a := account(t, s)
	if len(a.Shares.VM)+len(a.Shares.Maintenance) > 0 {
		t.Errorf("shares %v", a.Shares)
	}
	if d := diff(list("limits.cpu", "1", "limits.memory", "3Gi"), a.Free()); d != "" {
		t.Errorf("free (-want +got):\n%s", d)
	}
	if err := a.Check(quota.Reserve(v1alpha1.RoleLauncher,
		launcher("late", "late", "8", "1Gi"))); err != nil {
		t.Errorf("refused: %v", err)
	}
	if d := diff(space(proposed, s.Namespace.Annotations[proposed]).Annotations,
		s.Namespace.Annotations); d != "" {
		t.Errorf("annotations of the namespace (-want +got):\n%s", d)
	}
	wantHard(t, s, base)
}
