package quota

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestMaintenanceShare: what is set aside for migrations is used first, and only the rest
// raises the quota.
func TestMaintenanceShare(t *testing.T) {
	c, _ := start(t)
	ns := c.Namespace(t, list("limits.memory", "64Gi"))
	first := c.RunningVMI(t, ns, "first", small())
	launcher := c.Used(t, ns)["limits.memory"]
	base := times(launcher, 4)
	c.SetHard(t, ns, base)
	setShare(t, c, ns, `{"limit":{"limitsMemoryPercent":"25"}}`)
	second := c.RunningVMI(t, ns, "second", small())

	one := c.MigrateUntil(t, first, virtv1.MigrationPreparingTarget)
	one.Await(t, virtv1.MigrationPreparingTarget)
	awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	if hard := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard; !equality.Semantic.DeepEqual(hard, base) {
		t.Errorf("hard is %v: the share has room for one migration, and the base is %v", hard, base)
	}
	two := c.MigrateUntil(t, second, virtv1.MigrationPreparingTarget)
	two.Await(t, virtv1.MigrationPreparingTarget)
	awaitHard(t, c, ns, kubevirttest.QuotaName, times(launcher, 5))
	one.GoOn(t)
	two.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}

// setShare annotates a namespace, and returns when what it comes to is written.
func setShare(t *testing.T, c *kubevirttest.Cluster, namespace, text string) {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = namespace
	change(t, c, ns, func() {
		if ns.Annotations == nil {
			ns.Annotations = map[string]string{}
		}
		ns.Annotations[quota.MaintenanceAnnotation] = text
	})
	eventually(t, "the shares to be written", func() error {
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil {
			return err
		}
		for _, name := range []string{"vmAvailable", "maintenanceAvailable"} {
			if ns.Annotations[quota.DefaultPrefix+name] == "" {
				return errors.New(name + " is missing")
			}
		}
		return nil
	})
}

// times is a limit of memory for so many launchers.
func times(launcher resource.Quantity, n int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceLimitsMemory: *resource.NewQuantity(launcher.Value()*n, resource.BinarySI)}
}
