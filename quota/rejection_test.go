package quota_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func TestRejections(t *testing.T) {
	for message, want := range map[string][]quota.Rejection{
		`failed to create virtual machine pod: pods "virt-launcher-a-x" is forbidden: exceeded quota: default, requested: limits.memory=1Gi,pods=1, used: limits.memory=4Gi,pods=4, limited: limits.memory=4Gi,pods=4`: {
			{Quota: "default", Requested: list("limits.memory", "1Gi", "pods", "1")},
		},
		`admission webhook "launchers.guard.mooring.dev" denied the request: exceeded quota: the launcher of VM a does not fit: ResourceQuota default: limits.cpu: requested 2, free 500m; pods: requested 1, free 0 (reserved for 1 migration: pods=1); ResourceQuota other: requests.memory: requested 1Gi, free 0`: {
			{Quota: "default", Requested: list("limits.cpu", "2", "pods", "1")},
			{Quota: "other", Requested: list("requests.memory", "1Gi")},
		},
		`exceeded quota`:                       nil,
		`no service account`:                   nil,
		`exceeded quota: default, requested: `: nil,
	} {
		if d := diff(want, quota.Rejections(message)); d != "" {
			t.Errorf("%s (-want +got):\n%s", message, d)
		}
	}
}

// TestRefusalsParse: the parser reads every refusal, for all names and amounts. Otherwise the
// controller would not halt the VM.
func TestRefusalsParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := v1alpha1.ReservedPod{Role: v1alpha1.RoleLauncher, Charge: corev1.ResourceList{}}
		for _, name := range []corev1.ResourceName{"limits.cpu", "requests.memory", "pods",
			"requests.example.org/gpu", "requests.hugepages-2Mi"} {
			if rapid.Bool().Draw(t, string(name)) {
				pod.Charge[name] = amount(t, 1)
			}
		}
		var accounts []quota.Account
		var want []quota.Rejection
		for _, name := range rapid.SliceOfNDistinct(
			rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?(\.[a-z0-9]{1,9})?`), 1, 3,
			rapid.ID).Draw(t, "quotas") {
			a, rejection := drawAccount(t, name, pod.Charge)
			accounts = append(accounts, a)
			if len(rejection.Requested) > 0 {
				want = append(want, rejection)
			}
		}
		message := quota.RefuseLauncher("vm", quota.Lacking(accounts, pod))
		if !strings.Contains(message, quota.Exceeded) {
			t.Fatalf("KubeVirt takes it for no quota's: %s", message)
		}
		if d := diff(want, quota.Rejections(message)); d != "" {
			t.Fatalf("%s (-want +got):\n%s", message, d)
		}
	})
}

func amount(t *rapid.T, least int64) resource.Quantity {
	n := rapid.Int64Range(least, 1<<40).Draw(t, "amount")
	return rapid.SampledFrom([]resource.Quantity{
		*resource.NewQuantity(n, resource.BinarySI), *resource.NewQuantity(n, resource.DecimalSI),
		*resource.NewMilliQuantity(n, resource.DecimalSI),
	}).Draw(t, "written as")
}

// drawAccount returns an account and its shortage for a charge.
func drawAccount(
	t *rapid.T, name string, charge corev1.ResourceList,
) (quota.Account, quota.Rejection) {
	q, r := hard(corev1.ResourceList{"pods": resource.MustParse("1")}, corev1.ResourceList{}),
		quota.Rejection{Quota: name, Requested: corev1.ResourceList{}}
	q.Name = name
	for _, of := range slices.Sorted(maps.Keys(charge)) { // draws need a fixed order
		wants := charge[of]
		free := amount(t, 0)
		q.Status.Hard[of], q.Status.Used[of] = free, resource.Quantity{}
		if wants.Cmp(free) > 0 {
			r.Requested[of] = resource.MustParse(quota.AtLeast(of, wants)) // rounded up
		}
	}
	a := quota.Account{Quota: q, Reserved: list("limits.cpu", "1", "pods", "1")}
	if rapid.Bool().Draw(t, "holds") {
		a.Reservations = []*v1alpha1.MigrationReservation{{}}
	}
	return a, r
}

// A rejection counts while the quota has too little room and keeps some for migrations.
func TestStillLacking(t *testing.T) {
	full := hard(list("pods", "1"), list("pods", "1"))
	a := quota.Account{Quota: full, Reservations: []*v1alpha1.MigrationReservation{{}}}
	r := quota.Rejection{Quota: "quota", Requested: list("pods", "1")}
	roomy, kept := a, a
	roomy.Quota, kept.Reservations = hard(list("pods", "2"), list("pods", "1")), nil
	for name, test := range map[string]struct {
		of   quota.Account
		by   quota.Rejection
		want bool
	}{
		"full":               {a, r, true},
		"it has room by now": {roomy, r, false},
		"nothing is kept":    {kept, r, false},
		"another quota's":    {a, quota.Rejection{Quota: "other", Requested: r.Requested}, false},
		"unlimited resource": {a,
			quota.Rejection{Quota: "quota", Requested: list("limits.cpu", "1")}, false},
	} {
		if got := test.by.StillLacking([]quota.Account{test.of}); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
