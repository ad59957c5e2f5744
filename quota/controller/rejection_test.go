package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func TestRejections(t *testing.T) {
	type want map[string]corev1.ResourceList
	for message, want := range map[string]want{
		`failed to create virtual machine pod: pods "virt-launcher-a-x" is forbidden: exceeded quota: default, requested: limits.memory=1Gi,pods=1, used: limits.memory=4Gi,pods=4, limited: limits.memory=4Gi,pods=4`: {
			"default": {corev1.ResourceLimitsMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("1")},
		},
		`admission webhook "launchers.guard.mooring.dev" denied the request: exceeded quota: the launcher of VM a does not fit: ResourceQuota default: limits.cpu: requested 2, free 500m; pods: requested 1, free 0 (reserved for 1 migrations: pods=1); ResourceQuota other: requests.memory: requested 1Gi, free 0`: {
			"default": {corev1.ResourceLimitsCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("1")},
			"other":   {corev1.ResourceRequestsMemory: resource.MustParse("1Gi")},
		},
		`exceeded quota`:                       {},
		`no service account`:                   {},
		`exceeded quota: default, requested: `: {},
	} {
		got := map[string]corev1.ResourceList{}
		for _, r := range rejections(message) {
			got[r.quota] = r.wants
		}
		if diff := cmp.Diff(map[string]corev1.ResourceList(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", message, diff)
		}
	}
}

// The words of the guard are read by its own: what Account.Check says.
func TestRejectionsOfAnAccount(t *testing.T) {
	a := quota.Account{Quota: newQuota(), Holders: []*v1alpha1.MigrationReservation{{ObjectMeta: metav1.ObjectMeta{Name: "m"}}}}
	a.Quota.Status.Hard, a.Quota.Status.Used = base(), base()
	err := a.Check(quota.Reserve(v1alpha1.RoleLauncher, launcher("late", nil)))
	if err == nil {
		t.Fatal("a launcher fits a full quota")
	}
	got := rejections(quota.Exceeded + ": the launcher of VM late does not fit: " + err.Error())
	want := []rejection{{"quota", base()}}
	if len(got) != 1 || got[0].quota != want[0].quota || !same(got[0].wants, want[0].wants) {
		t.Errorf("got %+v of %v, want %+v", got, err, want)
	}
	if !got[0].holds([]quota.Account{a}) {
		t.Error("it does not hold in a full quota")
	}
	a.Quota.Status.Hard = doubled()
	if got[0].holds([]quota.Account{a}) {
		t.Error("it holds in a quota with room")
	}
}
