package guard_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// strictQuarter gives migrations 2 CPUs and 4Gi of the quotas here, and no more.
const strictQuarter = `{"limitsCpuPercent":25,"limitsMemoryPercent":25,"strict":true}`

// reserved is a reservation for a VM of 2 CPUs and 4Gi, created before others without a time.
func reserved(vm string) *v1alpha1.MigrationReservation {
	r := reservation()
	r.Name, r.UID, r.CreationTimestamp = "m-"+vm, types.UID("m-"+vm), ending().CreationTimestamp
	r.Spec.Migration = v1alpha1.Reference{Name: "migrate-" + vm, UID: r.UID}
	r.Spec.VMI = v1alpha1.Reference{Name: vm, UID: types.UID("vmi-" + vm)}
	r.Status.Phase = v1alpha1.PhaseGranted
	return r
}

// sharing returns a namespace with a share, two VMs of 2 CPUs and 4Gi, and reservations.
func sharing(share string, of ...*v1alpha1.MigrationReservation) []client.Object {
	all := []client.Object{namespace(shareKey, share), quiet(), kubevirtObject(),
		launcher("web", "2", "4Gi"), launcher("db", "2", "4Gi")}
	for _, r := range of {
		all = append(all, r)
	}
	return all
}

// TestMigrationsBeyondTheShare: a user's migration beyond a strict share is refused.
func TestMigrationsBeyondTheShare(t *testing.T) {
	loose := `{"limitsCpuPercent":25,"limitsMemoryPercent":25}`
	small := `{"limitsCpuPercent":12,"limitsMemoryPercent":25,"strict":true}`
	why := []string{"VM web cannot migrate now", "the maintenance share of ResourceQuota default " +
		"lacks limits.cpu=2, limits.memory=4Gi", "enlarge the share"}
	for name, test := range map[string]struct {
		objects []client.Object
		user    string
		change  func(*kubevirtv1.VirtualMachineInstanceMigration)
		why     []string
	}{
		"first":         {objects: sharing(strictQuarter)},
		"second":        {objects: sharing(strictQuarter, reserved("db")), why: why},
		"not strict":    {objects: sharing(loose, reserved("db"))},
		"no share":      {objects: sharing("", reserved("db"))},
		"unreadable":    {objects: sharing("rubbish", reserved("db"))},
		"an evacuation": {objects: sharing(strictQuarter, reserved("db")), user: virtController},
		"virtctl": {objects: sharing(strictQuarter, reserved("db")),
			user: "system:serviceaccount:kubevirt:kubevirt-apiserver", why: why},
		"exempt": {objects: sharing(strictQuarter, reserved("db")), user: own},
		"larger than the share": {objects: sharing(small),
			why: []string{"VM web cannot migrate now", "lacks limits.cpu=1040m"}},
		"no such VM": {objects: sharing(strictQuarter, reserved("db")),
			change: func(m *kubevirtv1.VirtualMachineInstanceMigration) { m.Spec.VMIName = "none" }},
		"to another cluster": {objects: sharing(strictQuarter, reserved("db")),
			change: func(m *kubevirtv1.VirtualMachineInstanceMigration) {
				m.Spec.SendTo = &kubevirtv1.VirtualMachineInstanceMigrationSource{}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			m := migration()
			m.Spec.VMIName = "web"
			if test.change != nil {
				test.change(m)
			}
			r := ask(t, admissionv1.Create, nil, m)
			if test.user != "" {
				r.UserInfo.Username = test.user
			}
			want(t, guard.NewMigration(newWorld(t, test.objects...).guard).Handle(t.Context(), r),
				test.why...)
		})
	}
}

// TestTargetsBeyondTheShare: KubeVirt takes the refusal of a target pod as one by a quota.
func TestTargetsBeyondTheShare(t *testing.T) {
	why := []string{quota.Exceeded, "the launcher of VM db does not fit", "lacks limits.cpu=2"}
	early := func(r *v1alpha1.MigrationReservation) *v1alpha1.MigrationReservation {
		r.CreationTimestamp.Time = r.CreationTimestamp.Add(-1)
		return r
	}
	for name, test := range map[string]struct {
		ledger []*v1alpha1.MigrationReservation
		memory string
		dry    bool
		why    []string
	}{
		"its turn":           {[]*v1alpha1.MigrationReservation{reserved("db")}, "4Gi", false, nil},
		"not reserved yet":   {nil, "4Gi", false, nil},
		"another one's turn": {[]*v1alpha1.MigrationReservation{early(reserved("a"))}, "4Gi", false, why},
		"a dry run":          {[]*v1alpha1.MigrationReservation{early(reserved("a"))}, "4Gi", true, why},
		"larger than reserved": {[]*v1alpha1.MigrationReservation{reserved("db")}, "5Gi", false,
			[]string{quota.Exceeded, "lacks limits.memory=1Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(sharing(strictQuarter, test.ledger...), migration(), instance())
			w := newWorld(t, objects...)
			pod := made(test.memory, "m-db")
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] =
				launcher("db", "2", "4Gi").Spec.Containers[0].Resources.Limits[corev1.ResourceCPU]
			r := ask(t, admissionv1.Create, nil, pod)
			r.Namespace, r.UserInfo.Username, r.DryRun = "vms", virtController, &test.dry
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}
