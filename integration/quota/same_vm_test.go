package quota

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// testMigratesAgain requests a second migration while the first source pod still runs. The first
// reservation stays until this pod ends. KubeVirt waits for it too.
func testMigratesAgain(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	seen := record(t, c, ns)
	m, first := charged(t, c, ns)
	source := m.Source(t)
	c.Keep(t, source)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitPhase(t, c, ns, v1alpha1.PhaseReleasing)

	vmi := kubevirttest.NewVMI(ns, "vm", small())
	c.AwaitRunning(t, vmi)
	again := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	again.Await(t, virtv1.MigrationPending)
	awaitReservation(t, c, ns, again, v1alpha1.PhaseGranted)
	awaitReservation(t, c, ns, m, v1alpha1.PhaseReleasing)
	if hard := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard; !atLeast(hard,
		plus(full(), first)) {
		t.Errorf("hard is %v, and the source and the target of the first migration are charged",
			hard)
	}

	c.Release(t, source)
	again.Await(t, virtv1.MigrationPreparingTarget)
	second := awaitPhase(t, c, ns, v1alpha1.PhaseCharged) // the only remaining reservation
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), second))
	again.GoOn(t)
	again.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	seen().check(t, []version{{0, full()}})
}

// testTwoAtOnce creates two migrations of a VM at the same time. Otherwise KubeVirt refuses the
// second. The controller reserves quota for one, then for the other. KubeVirt chooses the order,
// and both succeed.
func testTwoAtOnce(t *testing.T, c *kubevirttest.Cluster) {
	ns, both, seen := twoAdmitted(t, c)
	awaitOneOf(t, c, both, func(m *virtv1.VirtualMachineInstanceMigration) bool {
		return m.Status.Phase == virtv1.MigrationPreparingTarget
	})
	awaitRaised(t, c, ns, full())
	for len(both) > 0 {
		for _, m := range both {
			continueMigration(t, c, m)
		}
		ended := awaitOneOf(t, c, both, (*virtv1.VirtualMachineInstanceMigration).IsFinal)
		if phase := both[ended].Status.Phase; phase != virtv1.MigrationSucceeded {
			t.Errorf("%s is %s", both[ended].Name, phase)
		}
		both = slices.Delete(both, ended, ended+1)
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	h := seen()
	h.check(t, []version{{0, full()}})
	h.checkOneAtATime(t)
}

// awaitOneOf returns the index of the first migration accepted by right.
func awaitOneOf(
	t *testing.T, c *kubevirttest.Cluster, all []*virtv1.VirtualMachineInstanceMigration,
	right func(*virtv1.VirtualMachineInstanceMigration) bool,
) int {
	t.Helper()
	found := -1
	eventually(t, "one of the migrations", func() error {
		for i, m := range all {
			if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil {
				return err
			}
			if right(m) {
				found = i
				return nil
			}
		}
		return fmt.Errorf("none of %d", len(all))
	})
	return found
}

// twoAdmitted returns two migrations of the VM in a namespace, and the history of the namespace.
// Both stop at PreparingTarget. If KubeVirt admits only one, it starts again in another namespace.
func twoAdmitted(t *testing.T, c *kubevirttest.Cluster) (
	ns string, both []*virtv1.VirtualMachineInstanceMigration, seen func() history,
) {
	t.Helper()
	eventually(t, "two migrations to be admitted at once", func() error {
		ns = c.Namespace(t, full())
		c.RunningVMI(t, ns, "vm", small())
		seen = record(t, c, ns)
		if both = makeTwo(t, c, ns); len(both) == 2 {
			return nil
		}
		seen()
		for _, m := range both { // it keeps one of KubeVirt's slots until its end
			continueMigration(t, c, m)
			awaitOneOf(t, c, both, (*virtv1.VirtualMachineInstanceMigration).IsFinal)
		}
		return fmt.Errorf("%d were", len(both))
	})
	return ns, both, seen
}

// makeTwo makes two migrations at once and returns the admitted ones.
func makeTwo(
	t *testing.T, c *kubevirttest.Cluster, ns string,
) []*virtv1.VirtualMachineInstanceMigration {
	t.Helper()
	var made [2]*virtv1.VirtualMachineInstanceMigration
	var errs [2]error
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			m := &virtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{
				Namespace: ns, GenerateName: "vm-", Annotations: map[string]string{
					actor.Until: string(virtv1.MigrationPreparingTarget)},
			}}
			m.Spec.VMIName = "vm"
			if errs[i] = c.Client.Create(t.Context(), m); errs[i] == nil {
				made[i] = m
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil &&
		!strings.Contains(err.Error(), "in-flight migration") {
		t.Fatal(err)
	}
	return slices.DeleteFunc(made[:], func(m *virtv1.VirtualMachineInstanceMigration) bool {
		return m == nil
	})
}

// awaitReservation returns the reservation of a migration when it reaches a phase.
func awaitReservation(
	t *testing.T, c *kubevirttest.Cluster, ns string, m *kubevirttest.Migration,
	phase v1alpha1.Phase,
) v1alpha1.MigrationReservation {
	t.Helper()
	var found v1alpha1.MigrationReservation
	uid := m.Get(t).UID
	eventually(t, "its reservation to be "+string(phase), func() error {
		for _, r := range reservations(t, c, ns) {
			if found = r; r.Spec.Migration.UID == uid && r.Status.Phase == phase {
				return nil
			}
		}
		return fmt.Errorf("%+v", reservations(t, c, ns))
	})
	return found
}
