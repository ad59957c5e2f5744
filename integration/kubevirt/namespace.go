package kubevirttest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// QuotaName is the name of Namespace's quota.
const QuotaName = "quota"

// Namespace makes a namespace, and a quota unless hard is nil. It returns when VMs can be made
// there and the quota is enforced. t deletes the namespace at its end.
func (c *Cluster) Namespace(t testing.TB, hard corev1.ResourceList) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Client.Delete(cleanUp(t), ns); err != nil {
			t.Errorf("deleting the namespace: %v", err)
		}
	})
	keepObjects(t, c, ns.Name)
	account := &corev1.ServiceAccount{}
	Eventually(t, "the namespace's service account", func() bool {
		err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"},
			account)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	if hard != nil {
		c.Quota(t, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: QuotaName},
			Spec:       corev1.ResourceQuotaSpec{Hard: hard},
		})
	}
	return ns.Name
}

// Quota makes a quota and returns when it is enforced.
func (c *Cluster) Quota(t testing.TB, q *corev1.ResourceQuota) {
	t.Helper()
	if err := c.Client.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	c.awaitEnforced(t, q)
}

// SetHard changes the given limits of a namespace's quota, and returns when they are enforced.
func (c *Cluster) SetHard(t testing.TB, namespace string, hard corev1.ResourceList) {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: QuotaName}}
	patch(t, c, q, func(q *corev1.ResourceQuota) {
		for name, quantity := range hard {
			q.Spec.Hard[name] = quantity
		}
	})
	c.awaitEnforced(t, q)
}

func (c *Cluster) awaitEnforced(t testing.TB, q *corev1.ResourceQuota) {
	t.Helper()
	want := q.Spec.Hard.DeepCopy()
	Eventually(t, "the quota to be enforced", func() bool {
		c.get(t, q)
		return equality.Semantic.DeepEqual(want, q.Status.Hard)
	})
}

// Used returns the usage of a namespace's quota.
func (c *Cluster) Used(t testing.TB, namespace string) corev1.ResourceList {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: QuotaName}}
	c.get(t, q)
	return q.Status.Used
}
