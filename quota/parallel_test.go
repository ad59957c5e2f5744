package quota_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// drain is a namespace whose VMs fill its quota and all migrate.
type drain struct {
	*world
	base   int64
	growth int64 // of each target pod, in CPUs, as after an upgrade of KubeVirt
}

// newDrain returns a namespace with VMs of these sizes in CPUs, each on a node, and a pending
// migration for each. The quota is full.
func newDrain(parallel *quota.Parallel, sizes []int, nodes []string) *drain {
	var base int64
	for _, size := range sizes {
		base += int64(size)
	}
	s := snapshot(hard(list("limits.cpu", strconv.FormatInt(base, 10)), nil))
	s.Parallel, s.VMIs = parallel, nil
	for i, size := range sizes {
		name := fmt.Sprintf("vm%02d", i)
		source := launcher(name+"-source", name, strconv.Itoa(size), "1Gi")
		source.Spec.NodeName = nodes[i%len(nodes)]
		s.Pods = append(s.Pods, source)
		s.VMIs = append(s.VMIs, quota.VMI{Name: name, UID: types.UID(name)})
		s.Migrations = append(s.Migrations, migration("m-"+name, name, kubevirtv1.MigrationPending))
	}
	d := &drain{worldOf(s), base, 0}
	d.follow()
	return d
}

// control runs the controller and kube-controller-manager.
func (d *drain) control(t interface{ Fatal(...any) }) {
	for range 4 {
		s := d.snapshot()
		s.Estimates = map[types.UID]v1alpha1.ReservedPod{}
		for _, v := range quota.VMIsToEstimate(s) {
			s.Estimates[v.UID] = quota.Reserve(v1alpha1.RoleLauncher, d.target(v.Name, "any"))
		}
		p := quota.MakePlan(s, quota.Options{})
		for _, a := range p.Actions {
			if err := d.do(a); err != nil {
				t.Fatal(err)
			}
		}
		d.follow()
	}
}

func (d *drain) hard() int64 {
	q := d.s.Quotas[0].Spec.Hard["limits.cpu"]
	return q.Value()
}

// TestADrainRaisesOnlyForSlots drains a node with 100 VMs of one CPU in a full quota.
func TestADrainRaisesOnlyForSlots(t *testing.T) {
	for _, c := range []struct {
		name     string
		parallel *quota.Parallel
		nodes    []string
		want     int64
	}{
		{"one node", &quota.Parallel{Cluster: 5, Node: 2}, []string{"a"}, 102},
		{"two nodes", &quota.Parallel{Cluster: 5, Node: 2}, []string{"a", "b"}, 104},
		{"three nodes", &quota.Parallel{Cluster: 5, Node: 2}, []string{"a", "b", "c"}, 105},
		{"unknown node", &quota.Parallel{Cluster: 5, Node: 2}, []string{""}, 105},
		{"unknown limits", nil, []string{"a"}, 200},
		{"no migration in the cluster", &quota.Parallel{Cluster: 0, Node: 2}, []string{"a"}, 100},
		{"no migration from a node", &quota.Parallel{Cluster: 5, Node: 0}, []string{"a"}, 100},
		{"no migration", &quota.Parallel{}, []string{"a"}, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDrain(c.parallel, slices.Repeat([]int{1}, 100), c.nodes)
			d.control(t)
			if got := d.hard(); got != c.want {
				t.Errorf("hard %d, want %d", got, c.want)
			}
		})
	}
}

// TestPendingMigrationWithoutASlot names the reason, and no room is reserved for it.
func TestPendingMigrationWithoutASlot(t *testing.T) {
	d := newDrain(&quota.Parallel{Cluster: 5, Node: 1}, []int{1, 4}, []string{"a"})
	d.control(t)
	if got := d.hard(); got != 5+4 {
		t.Errorf("hard %d with two pending migrations, want room for the larger one, 9", got)
	}
	d.start(t, d.s.Migrations[0])
	d.control(t)
	if got := d.hard(); got != 5+1 {
		t.Errorf("hard %d with one running migration of 1 CPU, want 6", got)
	}
	s := d.snapshot()
	at := slices.IndexFunc(s.Reservations, func(r *v1alpha1.MigrationReservation) bool {
		return r.Name == "m-vm01"
	})
	s.Reservations = s.Reservations[at : at+1]
	if c := condition(t, s, v1alpha1.ConditionGranted); c.Reason != "WaitingForSlot" {
		t.Errorf("condition %+v, want reason WaitingForSlot", c)
	}
}

// TestAnAddedSlotIsUsed raises KubeVirt's limit while a target pod is rejected. No event reaches
// the namespace, and the controller still plans again.
func TestAnAddedSlotIsUsed(t *testing.T) {
	d := newDrain(&quota.Parallel{Cluster: 1, Node: 1}, []int{1, 4}, []string{"a"})
	d.control(t)
	d.start(t, d.s.Migrations[0])
	d.control(t)
	if d.start(t, d.s.Migrations[1]) {
		t.Fatal("the second migration has room without a slot")
	}
	d.control(t)
	next := quota.MakePlan(d.snapshot(), quota.Options{}).NextPlan
	if wait := next.Sub(d.s.Now); wait <= 0 || wait > time.Minute {
		t.Fatalf("next plan after %s, want a minute at most", wait)
	}
	d.s.Parallel.Cluster, d.s.Parallel.Node = 2, 2
	d.control(t)
	if !d.start(t, d.s.Migrations[1]) {
		t.Errorf("the second migration has no room in %d", d.hard())
	}
}

// target returns the target pod of a migration.
func (d *drain) target(vm, migration string) *corev1.Pod {
	size := quota.Charge(d.running(vm)[0])["limits.cpu"]
	return target("t-"+migration, vm, migration, strconv.FormatInt(size.Value()+d.growth, 10),
		"1Gi")
}

// start creates the target pod of a migration, or marks it as rejected by the quota.
func (d *drain) start(t interface{ Fatal(...any) },
	m *kubevirtv1.VirtualMachineInstanceMigration) bool {
	pod := d.target(m.Spec.VMIName, string(m.UID))
	m.Status.Conditions = nil
	if !d.admits(pod) {
		with(m, kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota)
		return false
	}
	m.Status.Phase = kubevirtv1.MigrationRunning
	d.s.Pods = append(d.s.Pods, pod)
	d.follow()
	return true
}

// slot reports whether KubeVirt may start a migration.
func (d *drain) slot(of *kubevirtv1.VirtualMachineInstanceMigration) bool {
	all, ofNode := 0, 0
	node := d.running(of.Spec.VMIName)[0].Spec.NodeName
	for _, m := range d.s.Migrations {
		if m.Status.Phase == kubevirtv1.MigrationRunning {
			all++
			if d.running(m.Spec.VMIName)[0].Spec.NodeName == node {
				ofNode++
			}
		}
	}
	return all < d.s.Parallel.Cluster && ofNode < d.s.Parallel.Node
}

func (d *drain) in(phase kubevirtv1.VirtualMachineInstanceMigrationPhase) (
	all []*kubevirtv1.VirtualMachineInstanceMigration) {
	for _, m := range d.s.Migrations {
		if m.Status.Phase == phase {
			all = append(all, m)
		}
	}
	return all
}

// succeed ends a migration and its source.
func (d *drain) succeed(m *kubevirtv1.VirtualMachineInstanceMigration) {
	m.Status.Phase = kubevirtv1.MigrationSucceeded
	ended(d.running(m.Spec.VMIName)[0])
}

// raisedAtMost is the largest sum of target pods that exist or can be created in free slots.
func (d *drain) raisedAtMost(sizes []int) int64 {
	var sum int64
	for _, m := range d.in(kubevirtv1.MigrationRunning) {
		q := quota.Charge(d.running(m.Spec.VMIName)[0])["limits.cpu"]
		sum += q.Value() + d.growth
	}
	sum += int64(len(d.in(kubevirtv1.MigrationSucceeded))) * d.growth
	most := resource.NewQuantity(int64(slices.Max(sizes))+d.growth, resource.DecimalSI)
	free := d.s.Parallel.Cluster - len(d.in(kubevirtv1.MigrationRunning))
	return sum + int64(free)*most.Value()
}

// TestADrainEnds lets KubeVirt pick any pending migration with a free slot. Every migration
// succeeds in the end, although the quota was full and targets may be larger than their sources.
// The quota never exceeds its base by more than the growth so far and the migrations under way.
func TestADrainEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parallel := &quota.Parallel{Cluster: rapid.IntRange(1, 5).Draw(t, "cluster"),
			Node: rapid.IntRange(1, 3).Draw(t, "node")}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 4), 1, 8).Draw(t, "sizes")
		d := newDrain(parallel, sizes, rapid.SampledFrom([][]string{{"a"}, {"a", "b"},
			{"a", "b", "c"}}).Draw(t, "nodes"))
		d.growth = int64(rapid.IntRange(0, 2).Draw(t, "growth"))
		for range sizes {
			d.control(t)
			d.startAll(t, sizes)
			if rapid.Bool().Draw(t, "late") {
				d.control(t)
			}
			for _, m := range d.in(kubevirtv1.MigrationRunning) {
				if rapid.Bool().Draw(t, m.Name) {
					d.succeed(m)
				}
			}
		}
		for range sizes { // each round ends at least one
			for range 3 { // a larger target can be rejected twice
				d.control(t)
				d.startAll(t, sizes)
			}
			for _, m := range d.in(kubevirtv1.MigrationRunning) {
				d.succeed(m)
			}
		}
		d.control(t)
		if left := d.in(kubevirtv1.MigrationPending); len(left) > 0 || d.hard() != d.base {
			t.Fatalf("%d pending migrations and hard %d at the end, want none and the base %d",
				len(left), d.hard(), d.base)
		}
	})
}

// startAll starts migrations in any order while there are free slots. Each must have room. Only a
// larger target may be rejected, once for itself and again if another one took its room.
func (d *drain) startAll(t *rapid.T, sizes []int) {
	if got, most := d.hard(), d.base+d.raisedAtMost(sizes); got > most {
		t.Fatalf("hard %d, want at most %d", got, most)
	}
	for _, m := range rapid.Permutation(d.in(kubevirtv1.MigrationPending)).Draw(t, "picked") {
		if d.slot(m) && !d.start(t, m) && d.growth == 0 {
			t.Fatalf("%s has a slot and no room in %d", m.Name, d.hard())
		}
	}
}

// TestLargerTargetsOneAfterAnother drains three VMs that fill 24 CPUs. Each target needs one CPU
// more, so after the first migration other pods use more than the base.
func TestLargerTargetsOneAfterAnother(t *testing.T) {
	d := newDrain(&quota.Parallel{Cluster: 1, Node: 1}, []int{8, 8, 8}, []string{"a"})
	d.growth = 1
	for i, m := range d.s.Migrations {
		d.control(t)
		d.start(t, m)
		d.control(t)
		if m.Status.Phase != kubevirtv1.MigrationRunning && !d.start(t, m) {
			t.Fatalf("migration %d has no room in %d", i+1, d.hard())
		}
		d.succeed(m)
	}
	d.control(t)
	if got := d.hard(); got != d.base {
		t.Errorf("hard %d at the end, want the base %d", got, d.base)
	}
}

// TestOtherPodsAboveTheBase takes the reserved room with a plain pod. The quota does not grow for
// it: a Deployment would take each raise.
func TestOtherPodsAboveTheBase(t *testing.T) {
	d := newDrain(&quota.Parallel{Cluster: 1, Node: 1}, []int{8}, []string{"a"})
	d.control(t)
	d.s.Pods = append(d.s.Pods, plainPod("plain", "8"))
	d.follow()
	d.control(t)
	if got := d.hard(); got != 16 {
		t.Errorf("hard %d, want 16", got)
	}
}
