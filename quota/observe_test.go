package quota_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/quota"
)

// drawMigrations draws a namespace with VMs of several sizes in one quota, some of them migrating.
func drawMigrations(t *rapid.T) quota.Snapshot {
	limits := list("limits.cpu", fmt.Sprint(rapid.IntRange(1, 20).Draw(t, "cpu")),
		"limits.memory", fmt.Sprint(rapid.IntRange(1, 20).Draw(t, "memory")), "pods", "9")
	s := snapshot(hard(limits, nil))
	s.VMIs = nil
	if rapid.Bool().Draw(t, "maintenance share") {
		s.Namespace.Annotations = map[string]string{quota.MaintenanceAnnotation: fmt.Sprintf(
			`{"limitsCpuPercent":%d,"limitsMemoryPercent":50}`,
			rapid.IntRange(0, 100).Draw(t, "percent"))}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "VMs") {
		name := fmt.Sprint("vm", i)
		cpu, memory := rapid.SampledFrom([]string{"1", "2"}).Draw(t, "cpus"),
			rapid.SampledFrom([]string{"1", "3"}).Draw(t, "bytes")
		s.VMIs = append(s.VMIs, quota.VMI{Name: name, UID: types.UID(name)})
		s.Pods = append(s.Pods, launcher(name+"-pod", name, cpu, memory))
		if !rapid.Bool().Draw(t, "migrates") {
			continue
		}
		m := migration("m-"+name, name, kubevirtv1.MigrationPending)
		if rapid.Bool().Draw(t, "is rejected") {
			with(m, kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
		}
		s.Migrations = append(s.Migrations, m)
	}
	w := worldOf(s)
	w.follow()
	return w.snapshot()
}

// settledIn plans and applies in a mode until the plan is empty, and returns that plan.
func settledIn(t *rapid.T, s quota.Snapshot, o quota.Options) (quota.Snapshot, quota.Plan) {
	w := worldOf(s)
	for range 9 {
		p := quota.MakePlan(w.snapshot(), o)
		if len(p.Actions) == 0 {
			return w.snapshot(), p
		}
		for _, a := range p.Actions {
			if err := w.do(a); err != nil {
				t.Fatalf("%T: %v", a, err)
			}
		}
		w.follow()
	}
	t.Fatal("no end")
	return s, quota.Plan{}
}

// For all migrations: mode observe writes no quota, predicts the limits of mode enforce, and has
// the same free amounts. Mode enforce takes over its reservations and reaches the same state.
func TestObservePredictsEnforce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawMigrations(t)
		observe := quota.Options{Observe: true}
		observed, plan := settledIn(t, s, observe)
		if d := diff(s.Quotas[0].Spec, observed.Quotas[0].Spec); d != "" {
			t.Fatalf("mode observe changed the quota:\n%s", d)
		}
		enforced, _ := settledIn(t, s, quota.Options{})
		flipped, _ := settledIn(t, observed, quota.Options{})
		predicted := s.Quotas[0].Spec.Hard
		if len(plan.Withheld) > 0 {
			predicted = plan.Withheld[0].Hard
		}
		for name, got := range map[string]quota.Snapshot{"enforce": enforced, "flip": flipped} {
			if d := diff(predicted, got.Quotas[0].Spec.Hard); d != "" {
				t.Fatalf("%s: limits (-predicted +got):\n%s", name, d)
			}
			if d := diff(free(observed, observe), free(got, quota.Options{})); d != "" {
				t.Fatalf("%s: free amounts (-predicted +got):\n%s", name, d)
			}
		}
	})
}

func free(s quota.Snapshot, o quota.Options) corev1.ResourceList {
	accounts, _ := quota.Accounts(s, o)
	return accounts[0].Free()
}
