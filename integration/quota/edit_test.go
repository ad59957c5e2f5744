package quota

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// During a migration, an administrator lowers one limit of a quota filled by one launcher, and
// removes another limit. The source launcher still takes more than the lowered limit, and the target
// has room beside it.
func testLimitsEdited(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("limits.cpu", "64", "limits.memory", "64Gi", "requests.cpu", "64",
		"requests.memory", "64Gi", "pods", "64"))
	vmi := kubevirttest.NewVMI(ns, "vm", small())
	vmi.Spec.Domain.Resources.Limits = list("cpu", "2", "memory", "2Gi")
	if err := c.Client.Create(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.AwaitRunning(t, vmi)
	launcher := c.Used(t, ns)
	c.SetHard(t, ns, launcher)
	m := c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	m.Await(t, virtv1.MigrationPreparingTarget)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	awaitHard(t, c, ns, kubevirttest.QuotaName, times(launcher, 2))
	for name := range launcher {
		if one := reserved(&r)[name]; one.Cmp(launcher[name]) != 0 {
			t.Errorf("%s of %s is reserved, want a launcher's charge", &one, name)
		}
	}

	edited := launcher.DeepCopy()
	edited[corev1.ResourceLimitsMemory] = resource.MustParse("1Gi")
	delete(edited, corev1.ResourceRequestsCPU)
	q := quotaOf(t, c, ns, kubevirttest.QuotaName)
	change(t, c, q, func() {
		q.Spec.Hard[corev1.ResourceLimitsMemory] = edited[corev1.ResourceLimitsMemory]
		delete(q.Spec.Hard, corev1.ResourceRequestsCPU)
	})
	raised := plus(edited, r)
	raised[corev1.ResourceLimitsMemory] = times(launcher, 2)[corev1.ResourceLimitsMemory]
	awaitHard(t, c, ns, kubevirttest.QuotaName, raised)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, edited)
}
