package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// quotaNamespace has a full quota.
const quotaNamespace = namespace + "-quota"

// TestMigrationInAFullNamespace migrates a VM in a namespace with a full quota. The suite acts as
// virt-controller. Kubernetes' own controller counts the pods, and its admission rejects the target
// pod until Mooring raises the quota. Afterwards the quota has its base again.
func TestMigrationInAFullNamespace(t *testing.T) {
	c := start(t)
	kv := c.kubeVirt(t)
	q := c.fullQuota(t, kv)
	vmi := c.runningVMI(t, kv, quotaNamespace, "vm", nil)
	source := launcherOf(vmi, "virt-launcher-source")
	c.create(t, source)
	c.awaitUsed(t, kv, q, 1)
	target := launcherOf(vmi, "virt-launcher-target")
	pods := c.client.CoreV1().Pods(quotaNamespace)
	if _, err := pods.Create(t.Context(), target.DeepCopy(), metav1.CreateOptions{}); !apierrors.
		IsForbidden(err) {
		t.Fatalf("a second launcher: got %v, want a rejection", err)
	}

	m := &virtv1.VirtualMachineInstanceMigration{
		ObjectMeta: metav1.ObjectMeta{Namespace: quotaNamespace, Name: "m"},
		Spec:       virtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmi.Name}}
	c.createObject(t, kv, m)
	c.setPhase(t, kv, m, virtv1.MigrationPending)
	target.Labels[virtv1.MigrationJobLabel] = string(m.UID)
	// virt-controller tries again, too.
	controller := c.virtController(t).CoreV1().Pods(quotaNamespace)
	eventually(t, "the target pod to be accepted", func(ctx context.Context) error {
		_, err := controller.Create(ctx, target.DeepCopy(), metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { c.delete(t, target) })
	c.setPhase(t, kv, m, virtv1.MigrationRunning)
	c.awaitUsed(t, kv, q, 2)
	wantQuotaGuarded(t, kv, q)

	c.setPhase(t, kv, m, virtv1.MigrationSucceeded)
	c.delete(t, source)
	c.awaitRestored(t, kv, q)
}

// fullQuota makes the namespace with a quota for one launcher.
func (c *cluster) fullQuota(t *testing.T, kv client.Client) *corev1.ResourceQuota {
	t.Helper()
	if err := c.makeNamespace(t.Context(), quotaNamespace, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := c.deleteNamespace(context.WithoutCancel(t.Context()), quotaNamespace)
		if err != nil {
			t.Error(err)
		}
	})
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: quotaNamespace,
		Name: "full"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1"),
		corev1.ResourceRequestsMemory: resource.MustParse("128Mi")}
	c.createObject(t, kv, q.DeepCopy())
	return q
}

// awaitUsed returns when kube-controller-manager counts n pods.
func (c *cluster) awaitUsed(t *testing.T, kv client.Client, q *corev1.ResourceQuota, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods to be charged", n), func(ctx context.Context) error {
		now := &corev1.ResourceQuota{}
		if err := kv.Get(ctx, client.ObjectKeyFromObject(q), now); err != nil {
			return err
		}
		if used := now.Status.Used.Pods().Value(); used != n {
			return fmt.Errorf("%d are; limits %v", used, now.Spec.Hard)
		}
		return nil
	})
}

// awaitRestored returns when the quota has its base, and no trace of the migration is left.
func (c *cluster) awaitRestored(t *testing.T, kv client.Client, q *corev1.ResourceQuota) {
	t.Helper()
	eventually(t, "the quota to be restored", func(ctx context.Context) error {
		now := &corev1.ResourceQuota{}
		if err := kv.Get(ctx, client.ObjectKeyFromObject(q), now); err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(now.Status.Hard, q.Spec.Hard) || len(now.Annotations) > 0 {
			return fmt.Errorf("limits %v, annotations %v", now.Status.Hard, now.Annotations)
		}
		left := &unstructured.UnstructuredList{}
		left.SetAPIVersion(v1alpha1.GroupVersion().String())
		left.SetKind("MigrationReservationList")
		if err := kv.List(ctx, left, client.InNamespace(q.Namespace)); err != nil {
			return err
		}
		if len(left.Items) > 0 {
			return fmt.Errorf("%d reservations", len(left.Items))
		}
		return nil
	})
}

// setPhase writes a migration's phase, as virt-controller does.
func (c *cluster) setPhase(
	t *testing.T, kv client.Client, m *virtv1.VirtualMachineInstanceMigration,
	phase virtv1.VirtualMachineInstanceMigrationPhase,
) {
	t.Helper()
	eventually(t, "phase "+string(phase), func(ctx context.Context) error {
		if err := kv.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		m.Status.Phase = phase
		return kv.Status().Update(ctx, m)
	})
}
