package quota

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// makeTemporaryNamespace makes a namespace for deletion by the test, with a quota filled by one
// small VM.
func makeTemporaryNamespace(t *testing.T, c *kubevirttest.Cluster) *corev1.Namespace {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "deleted-"}}
	if err := c.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service account", func() error {
		return c.Client.Get(t.Context(), client.ObjectKey{Namespace: ns.Name, Name: "default"},
			&corev1.ServiceAccount{})
	})
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: kubevirttest.QuotaName},
		Spec:       corev1.ResourceQuotaSpec{Hard: full()},
	})
	return ns
}

// deleteNamespace deletes a namespace and returns when it is gone.
func deleteNamespace(t *testing.T, c *kubevirttest.Cluster, ns *corev1.Namespace) {
	t.Helper()
	if err := c.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace to be gone", func() error {
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)
		if err == nil {
			return fmt.Errorf("%+v, reservations %+v", ns.Status, reservations(t, c, ns.Name))
		}
		return client.IgnoreNotFound(err)
	})
}
