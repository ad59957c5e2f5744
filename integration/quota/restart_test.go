package quota

import (
	"testing"

	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestRestarts restarts the controller with three migrations: one rejected by a quota, one active,
// one ended during the restart. The annotations use another prefix.
func TestRestarts(t *testing.T) {
	const prefix = "example.org/"
	c, p := start(t, "--annotation-prefix="+prefix)
	p.stop(t)
	ns := c.Namespace(t, full())
	m := c.MigrateUntil(t, c.RunningVMI(t, ns, "vm", small()), virtv1.MigrationPreparingTarget)
	m.AwaitRejected(t)

	p.start(t)
	m.Await(t, virtv1.MigrationPreparingTarget)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseCharged)

	p.stop(t)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	wantMigratingVMs(t, c, ns, prefix, r)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))

	p.start(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	checkWrites(t, p)
}

// TestStandBy runs a second controller. It takes over when the first one ends, and writes no object
// before.
func TestStandBy(t *testing.T) {
	c, first := start(t)
	second := install(t, c, "second-controller")
	second.start(t)
	ns := c.Namespace(t, full())
	m, _ := charged(t, c, ns)
	if _, done := writes(t, second); done > 0 {
		t.Errorf("%d writes of the standby", done)
	}
	first.stop(t)
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	checkWrites(t, second)
}
