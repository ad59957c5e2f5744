package quota

import (
	"cmp"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// testVanishes removes a migration's object without a result. The reservation stays while both pods
// are charged.
func testVanishes(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	target := m.Target(t)
	c.Keep(t, target)
	vanish(t, c, m.Get(t))
	awaitPhase(t, c, ns, v1alpha1.PhaseReleasing)
	edited := full() // the controller plans this edit after the migration's end
	edited[corev1.ResourceRequestsMemory] = resource.MustParse("3Gi")
	setHard(t, c, ns, edited)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(edited, r))
	if err := c.Client.Delete(t.Context(), target); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	c.Release(t, target)
	awaitClean(t, c, ns, kubevirttest.QuotaName, edited)
}

// testVanishesWhilePending removes the object before the target pod exists.
func testVanishesWhilePending(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	c.Quota(t, strict(ns))
	m := c.Migrate(t, c.RunningVMI(t, ns, "vm", small()))
	m.AwaitRejected(t)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseReserved)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	vanish(t, c, m.Get(t))
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// vanish removes a migration's finalizers and deletes it, faster than KubeVirt reacts. It removes a
// finalizer added again by KubeVirt.
func vanish(t *testing.T, c *kubevirttest.Cluster, m *virtv1.VirtualMachineInstanceMigration) {
	t.Helper()
	without := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	eventually(t, "the migration to vanish", func() error {
		for _, do := range []func() error{
			func() error { return c.Client.Patch(t.Context(), m, without) },
			func() error { return c.Client.Delete(t.Context(), m) },
		} {
			if err := do(); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it still exists"))
	})
}
