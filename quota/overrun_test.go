package quota_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// fullNamespace returns a world with a VM for each amount of memory. Together the launchers may use
// more than the base.
func fullNamespace(base string, memory ...string) *world {
	s := snapshot(hard(list("limits.memory", base), nil))
	s.VMIs = nil
	for i, m := range memory {
		name := fmt.Sprint("vm", i)
		s.VMIs = append(s.VMIs, quota.VMI{Name: name, UID: types.UID(name)})
		s.Pods = append(s.Pods, launcher(name+"-source", name, "1", m))
	}
	w := worldOf(s)
	w.follow()
	return w
}

// migrateAll migrates all VMs of a world, one after another, to target pods with this memory. It
// calls between before and after each run of the controller.
func migrateAll(t *testing.T, w *world, memory string, between func()) {
	t.Helper()
	step := func() {
		between()
		w.control(t)
		between()
	}
	for i, v := range w.s.VMIs {
		name := fmt.Sprint("m", i)
		m := migration(name, v.Name, kubevirtv1.MigrationPending)
		w.s.Migrations = append(w.s.Migrations, m)
		source := w.running(v.Name)[0]
		pod := target(v.Name+"-target", v.Name, name, "1", memory)
		for tries := 0; !w.admits(pod); tries++ {
			if tries == 5 {
				t.Fatalf("the target of %s is not admitted: spec.hard %v, used %v, reservations %+v",
					v.Name, w.s.Quotas[0].Spec.Hard, w.used(w.s.Quotas[0]),
					w.s.Reservations[0].Status.Conditions)
			}
			w.rejectTarget(m, pod)
			step()
		}
		m.Status.Phase, m.Status.Conditions = kubevirtv1.MigrationRunning, nil
		w.charge(pod)
		step()
		m.Status.Phase = kubevirtv1.MigrationSucceeded
		step()
		ended(source)
		step()
	}
}

// rejectTarget acts as KubeVirt and the admission webhook on the target pod that a quota rejects.
func (w *world) rejectTarget(m *kubevirtv1.VirtualMachineInstanceMigration, pod *corev1.Pod) {
	m.Status.Conditions = nil
	with(m, kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
	if at := w.find(string(m.UID)); at >= 0 {
		r := w.s.Reservations[at].DeepCopy()
		r.Annotations = map[string]string{quota.TargetAnnotation: quota.FormatRendered(
			quota.Reserve(v1alpha1.RoleLauncher, pod))}
		w.s.Reservations[at] = r
	}
}

// control runs the controller, and kube-controller-manager after it.
func (w *world) control(t *testing.T) {
	t.Helper()
	for range 3 {
		for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
			if err := w.do(a); err != nil {
				t.Fatalf("%T: %v", a, err)
			}
		}
		w.follow()
	}
}

// An upgrade of KubeVirt makes launchers larger, or an administrator has lowered a quota. Each
// migration still gets its target pod, and no other pod gets room above the base meanwhile.
func TestDrainOfAFullNamespace(t *testing.T) {
	for name, c := range map[string]struct {
		base    string
		sources []string
		plain   []*corev1.Pod
		target  string
	}{
		"two VMs":   {"8Gi", []string{"4Gi", "4Gi"}, nil, "4300Mi"},
		"three VMs": {"8Gi", []string{"2730Mi", "2730Mi", "2732Mi"}, nil, "4300Mi"},
		"a lowered quota": {"6Gi", []string{"4Gi", "2Gi"},
			[]*corev1.Pod{plainPod("plain", "1")}, "4300Mi"},
		"a lowered quota and small targets": {"3Gi", []string{"4Gi", "2Gi"}, nil, "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			w := fullNamespace(c.base, c.sources...)
			w.s.Pods = append(w.s.Pods, c.plain...)
			w.follow()
			migrateAll(t, w, c.target, func() {
				pod := plainPod("another", "1")
				if w.admitsOther(pod) && !w.withinBase(pod, list("limits.memory", c.base)) {
					t.Fatalf("a plain pod is admitted: spec.hard %v, used %v",
						w.s.Quotas[0].Spec.Hard, w.used(w.s.Quotas[0]))
				}
			})
			wantNothing(t, w.snapshot(), list("limits.memory", c.base))
		})
	}
}
