package quota_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// strictly is a quota of 4 CPUs and 5Gi with a strict share, and VMs of 1 CPU and 1Gi with pending
// migrations of the same names.
func strictly(percent int, vms ...string) quota.Snapshot {
	s := snapshot(hard(list("limits.cpu", "4", "limits.memory", "5Gi"), nil))
	s.Namespace = space(quota.MaintenanceAnnotation, fmt.Sprintf(
		`{"limitsCpuPercent":%d,"limitsMemoryPercent":%[1]d,"strict":true}`, percent))
	s.VMIs = nil
	for _, vm := range vms {
		s.VMIs = append(s.VMIs, quota.VMI{Name: vm, UID: types.UID("vmi-" + vm)})
		s.Pods = append(s.Pods, launcher(vm+"-source", "vmi-"+vm, "1", "1Gi"))
		s.Migrations = append(s.Migrations, migration(vm, vm, kubevirtv1.MigrationPending))
	}
	return s
}

// waits returns the message of the condition Granted of a migration that waits for the share.
func waits(t *testing.T, s quota.Snapshot, migration string) string {
	t.Helper()
	for _, r := range s.Reservations {
		c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionGranted)
		if r.Name == migration && c != nil && c.Reason == "WaitingForShare" {
			return c.Message
		}
	}
	return ""
}

// TestScenario4Strictly: the share of one quarter has room for one migration. The other one waits
// until the source pod of the first one has ended. The quota never changes.
func TestScenario4Strictly(t *testing.T) {
	base := list("limits.cpu", "4", "limits.memory", "5Gi")
	s := settled(t, strictly(25, "a", "b"))
	wantHard(t, s, base)
	if why := waits(t, s, "a"); why != "" {
		t.Errorf("a waits: %s", why)
	}
	want := "the maintenance share of ResourceQuota quota lacks limits.cpu=1, limits.memory=768Mi"
	if why := waits(t, s, "b"); why != want {
		t.Errorf("b waits: %q, want %q", why, want)
	}
	w := worldOf(s)
	w.charge(target("a-target", "vmi-a", "a", "1", "1Gi"))
	w.follow()
	s = settled(t, w.snapshot())
	wantHard(t, s, base)
	if waits(t, s, "b") == "" {
		t.Error("b does not wait beside the target pod of a")
	}
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationSucceeded
	if s = settled(t, s); waits(t, s, "b") == "" {
		t.Error("b does not wait, and the source pod of a is charged")
	}
	ended(s.Pods[0])
	w = worldOf(s)
	w.follow()
	if s = settled(t, w.snapshot()); waits(t, s, "b") != "" {
		t.Errorf("b waits: %s", waits(t, s, "b"))
	}
	wantHard(t, s, base)
}

// TestScenariosAtNominalSizes: half of the proposal's quota is 2 CPUs and 2560Mi. Without overhead
// two VMs fit into each half, and two migrations. With the proposal's own overhead of 298Mi the
// second VM and the second migration do not fit: 2644Mi. So the scenarios are impossible then, in
// both modes.
func TestScenariosAtNominalSizes(t *testing.T) {
	for memory, fit := range map[string]bool{"1Gi": true, "1322Mi": false} {
		for _, strict := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, strict %t", memory, strict), func(t *testing.T) {
				s := strictly(50, "a", "b")
				s.Namespace = space(quota.MaintenanceAnnotation, fmt.Sprintf(
					`{"limitsCpuPercent":50,"limitsMemoryPercent":50,"strict":%t}`, strict))
				for i, pod := range s.Pods {
					pod.Spec.Containers = []corev1.Container{container("1", memory)}
					w := worldOf(s)
					w.s.Pods, w.s.Migrations = s.Pods[:i], nil // each VM beside those before it
					w.follow()
					lacking := quota.Lacking([]quota.Account{account(t, w.snapshot())},
						quota.Reserve("", pod))
					if wanted := i == 0 || fit; (lacking == "") != wanted {
						t.Errorf("VM %d: %q, want room %t", i+1, lacking, wanted)
					}
				}
				s = settled(t, s)
				wait, raised := waits(t, s, "b") != "", len(s.Quotas) == 1 &&
					diff(list("limits.cpu", "4", "limits.memory", "5Gi"), s.Quotas[0].Spec.Hard) != ""
				if wait != (strict && !fit) || raised != (!strict && !fit) {
					t.Errorf("the second migration waits %t, and the quota is raised %t", wait, raised)
				}
			})
		}
	}
}

// TestLargerThanTheShare: a migration that never fits waits alone.
func TestLargerThanTheShare(t *testing.T) {
	s := strictly(25, "a", "b")
	s.Pods[0].Spec.Containers = []corev1.Container{container("2", "1Gi")}
	s = settled(t, s)
	if why := waits(t, s, "a"); !strings.Contains(why, "limits.cpu=1") {
		t.Errorf("a: %q", why)
	}
	if why := waits(t, s, "b"); why != "" {
		t.Errorf("b waits: %s", why)
	}
}

// TestStrictShareLeavesVMsTheirs: waiting migrations take no room from VMs.
func TestStrictShareLeavesVMsTheirs(t *testing.T) {
	s := settled(t, strictly(25, "a", "b"))
	w := worldOf(s)
	w.follow()
	if d := diff(list("limits.cpu", "1", "limits.memory", "1792Mi"),
		account(t, w.snapshot()).Free()); d != "" {
		t.Errorf("free for VMs (-want +got):\n%s", d)
	}
}

// TestStrictModel migrates VMs of random sizes in a random order. Safety: target pods stay within
// the share, and the quota at its base. Liveness: each migration within the share is admitted in
// the end, and the condition of another one names the missing amount.
func TestStrictModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := snapshot(hard(list("limits.cpu", "20", "pods", "9"), nil))
		share := rapid.IntRange(1, 5).Draw(r, "share")
		s.Namespace = space(quota.MaintenanceAnnotation,
			fmt.Sprintf(`{"limitsCpuPercent":%d,"strict":true}`, share*5))
		s.VMIs = nil
		w := worldOf(s)
		sizes := map[string]int{}
		for i := range rapid.IntRange(1, 4).Draw(r, "VMs") {
			vm := fmt.Sprintf("vm%d", i)
			sizes[vm] = rapid.IntRange(1, 3).Draw(r, "size")
			w.s.VMIs = append(w.s.VMIs, quota.VMI{Name: vm, UID: types.UID(vm)})
			w.s.Pods = append(w.s.Pods, launcher(vm+"-source", vm, strconv.Itoa(sizes[vm]), "1Gi"))
			w.s.Migrations = append(w.s.Migrations,
				migration("m-"+vm, vm, kubevirtv1.MigrationPending))
		}
		settle := func() {
			for range 4 {
				w.follow()
				for _, a := range quota.MakePlan(w.snapshot(), quota.Options{}).Actions {
					if err := w.do(a); err != nil {
						r.Fatal(err)
					}
				}
			}
			if cpu := w.s.Quotas[0].Spec.Hard["limits.cpu"]; cpu.Value() != 20 {
				r.Fatalf("limits.cpu is %s", &cpu)
			}
		}
		settle()
		var charged []*kubevirtv1.VirtualMachineInstanceMigration
		for range 60 {
			m := rapid.SampledFrom(w.s.Migrations).Draw(r, "migration")
			vm := m.Spec.VMIName
			switch {
			case m.IsFinal():
			case slices.Contains(charged, m):
				m.Status.Phase = kubevirtv1.MigrationSucceeded
				settle()
				ended(w.running(vm)[0])
				charged = slices.DeleteFunc(charged,
					func(c *kubevirtv1.VirtualMachineInstanceMigration) bool { return c == m })
				settle()
			default:
				accounts, _ := quota.Accounts(w.snapshot(), quota.Options{})
				pod := target("t-"+vm, vm, string(m.UID), strconv.Itoa(sizes[vm]), "1Gi")
				if quota.LackingShare(accounts, string(m.UID)) != "" || !w.admits(pod) {
					continue
				}
				w.charge(pod)
				charged = append(charged, m)
				settle()
				w.pass(time.Second)
			}
			used := 0
			for _, m := range charged {
				used += sizes[m.Spec.VMIName]
			}
			if used > share {
				r.Fatalf("targets use %d CPUs of a share of %d", used, share)
			}
		}
		for range 2 * len(sizes) { // each migration ends or starts
			for _, m := range w.s.Migrations {
				vm := m.Spec.VMIName
				pod := target("t-"+vm, vm, string(m.UID), strconv.Itoa(sizes[vm]), "1Gi")
				accounts, _ := quota.Accounts(w.snapshot(), quota.Options{})
				if !m.IsFinal() && !slices.Contains(charged, m) &&
					quota.LackingShare(accounts, string(m.UID)) == "" && w.admits(pod) {
					w.charge(pod)
					charged = append(charged, m)
				}
				if slices.Contains(charged, m) && !m.IsFinal() {
					settle()
					m.Status.Phase = kubevirtv1.MigrationSucceeded
					ended(w.running(vm)[0])
					settle()
				}
			}
		}
		for _, m := range w.s.Migrations {
			if fits := sizes[m.Spec.VMIName] <= share; fits != m.IsFinal() {
				r.Fatalf("%s with %d CPUs of a share of %d is %s", m.Name,
					sizes[m.Spec.VMIName], share, m.Status.Phase)
			}
			if !m.IsFinal() && !strings.Contains(waits(t, w.snapshot(), m.Name),
				"lacks limits.cpu=") {
				r.Fatalf("%s waits without a reason: %+v", m.Name, w.s.Reservations)
			}
		}
	})
}
