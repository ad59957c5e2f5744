package quota_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

const namespace = "vms"

// start is the time at which tests start.
func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// list makes a ResourceList of names and quantities.
func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// diff compares quantities by their amount.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmp.Comparer(func(a, b resource.Quantity) bool {
		return a.Cmp(b) == 0
	}))
}

// launcher returns the launcher pod of a VM with these limits and equal requests.
func launcher(name, vmi string, cpu, memory string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container(cpu, memory)}}}
	pod.Name, pod.Namespace, pod.UID = name, namespace, types.UID(name)
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "virt-launcher",
		kubevirtv1.CreatedByLabel: vmi}
	pod.CreationTimestamp = metav1.Time{Time: start()}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

// plainPod returns a pod of no VM.
func plainPod(name, cpu string) *corev1.Pod {
	pod := launcher(name, "", cpu, "1Gi")
	pod.Labels = nil
	return pod
}

func container(cpu, memory string) corev1.Container {
	amounts := list("cpu", cpu, "memory", memory)
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts,
		Limits: amounts}}
}

// target returns the target pod of a migration.
func target(name, vmi, migration, cpu, memory string) *corev1.Pod {
	pod := launcher(name, vmi, cpu, memory)
	pod.Labels[kubevirtv1.MigrationJobLabel] = migration
	pod.CreationTimestamp.Time = start().Add(time.Minute)
	return pod
}

func ended(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Phase = corev1.PodSucceeded
	return pod
}

// attachment returns the pod with hot-plugged disks of a launcher.
func attachment(of *corev1.Pod) *corev1.Pod {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{container("100m", "80M")}}}
	pod.Name, pod.Namespace, pod.UID = "hp-"+of.Name, namespace, types.UID("hp-"+of.Name)
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "hotplug-disk"}
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(of, corev1.SchemeGroupVersion.WithKind("Pod"))}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func migration(
	uid, vmi string, phase kubevirtv1.VirtualMachineInstanceMigrationPhase,
) *kubevirtv1.VirtualMachineInstanceMigration {
	m := &kubevirtv1.VirtualMachineInstanceMigration{}
	m.Name, m.Namespace, m.UID = uid, namespace, types.UID(uid)
	m.CreationTimestamp = metav1.Time{Time: start()}
	m.Spec.VMIName = vmi
	m.Status.Phase = phase
	return m
}

func with(
	m *kubevirtv1.VirtualMachineInstanceMigration,
	condition kubevirtv1.VirtualMachineInstanceMigrationConditionType,
) *kubevirtv1.VirtualMachineInstanceMigration {
	m.Status.Conditions = append(m.Status.Conditions,
		kubevirtv1.VirtualMachineInstanceMigrationCondition{
			Type: condition, Status: corev1.ConditionTrue,
		})
	return m
}

// hard returns a quota with these limits and this use.
func hard(limits, used corev1.ResourceList) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: limits}}
	q.Name, q.Namespace, q.UID, q.ResourceVersion = "quota", namespace, "quota", "1"
	q.Status.Hard, q.Status.Used = limits.DeepCopy(), used
	return q
}

// snapshot returns a live snapshot with a namespace and the VMI "vm".
func snapshot(quotas ...*corev1.ResourceQuota) quota.Snapshot {
	ns := &corev1.Namespace{}
	ns.Name = namespace
	return quota.Snapshot{Now: start(), Live: true, Namespace: ns, Quotas: quotas,
		VMIs: []quota.VMI{{Name: "vm", UID: "vm"}}}
}

// carry applies a plan to a snapshot and copies spec.hard to status.hard.
func carry(t *testing.T, s quota.Snapshot, p quota.Plan) quota.Snapshot {
	t.Helper()
	w := worldOf(s)
	for _, a := range p.Actions {
		if err := w.do(a); err != nil {
			t.Fatalf("%T: %v", a, err)
		}
	}
	w.follow()
	return w.snapshot()
}

// settled plans and applies until the plan is empty.
func settled(t *testing.T, s quota.Snapshot) quota.Snapshot {
	t.Helper()
	for range 5 {
		p := quota.MakePlan(s, quota.Options{})
		if len(p.Actions) == 0 {
			return s
		}
		s = carry(t, s, p)
	}
	t.Fatalf("no end: %+v", quota.MakePlan(s, quota.Options{}).Actions)
	return s
}

func reservation(t *testing.T, s quota.Snapshot) *v1alpha1.MigrationReservation {
	t.Helper()
	if len(s.Reservations) != 1 {
		t.Fatalf("%d reservations: want 1", len(s.Reservations))
	}
	return s.Reservations[0]
}

func wantHard(t *testing.T, s quota.Snapshot, want corev1.ResourceList) {
	t.Helper()
	if d := diff(want, s.Quotas[0].Spec.Hard); d != "" {
		t.Errorf("spec.hard (-want +got):\n%s", d)
	}
}

// wantNothing expects a namespace without reservations and with its base.
func wantNothing(t *testing.T, s quota.Snapshot, base corev1.ResourceList) {
	t.Helper()
	wantHard(t, s, base)
	if len(s.Reservations) > 0 {
		t.Errorf("%d reservations are left", len(s.Reservations))
	}
	if len(s.Namespace.Labels) > 0 {
		t.Errorf("labels are left: %v", s.Namespace.Labels)
	}
	if a := s.Quotas[0].Annotations; len(a) > 0 {
		t.Errorf("annotations are left: %v", a)
	}
}
