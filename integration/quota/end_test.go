package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestRejectedMigration has a quota with opt-out reject a migration. The migration keeps its
// reservation, says what is missing, and gets through when the administrator raises the quota.
func TestRejectedMigration(t *testing.T) {
	c, _ := start(t)
	ns := c.Namespace(t, full())
	c.Quota(t, strict(ns))
	m := c.Migrate(t, c.RunningVMI(t, ns, "vm", small()))
	m.AwaitRejected(t)
	eventually(t, "the condition Waiting", func() error {
		r := awaitPhase(t, c, ns, v1alpha1.PhaseReserved)
		waiting := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting)
		if waiting == nil || waiting.Status != metav1.ConditionTrue ||
			!strings.Contains(waiting.Message, "strict, which has opted out, lacks pods=1") ||
			!meta.IsStatusConditionFalse(r.Status.Conditions, v1alpha1.ConditionGranted) {
			return fmt.Errorf("%+v", r.Status)
		}
		return nil
	})
	awaitEvents(t, c, m.Get(t), quota.ReasonReserved, quota.ReasonWaiting)
	awaitHard(t, c, ns, "strict", list("pods", "1"))
	q := quotaOf(t, c, ns, "strict")
	q.Spec.Hard = list("pods", "2")
	if err := c.Client.Update(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	m.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// strict returns a quota with opt-out and without space for a second launcher.
func strict(namespace string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "strict", Annotations: map[string]string{
				quota.DefaultPrefix + "skipResourceQuotaAutoScaling": "true"},
		},
		Spec: corev1.ResourceQuotaSpec{Hard: list("pods", "1")},
	}
}

// TestNamespaceDeleted deletes a namespace during a migration. Deletion must not block.
func TestNamespaceDeleted(t *testing.T) {
	c, _ := start(t)
	ns := makeTemporaryNamespace(t, c)
	charged(t, c, ns.Name)
	deleteNamespace(t, c, ns)
}

// TestFailedPatch checks the error by which the controller recognizes a failed JSON patch test:
// reason Invalid, without causes.
func TestFailedPatch(t *testing.T) {
	c := kubevirttest.Start(t)
	ns := c.Namespace(t, full())
	q := quotaOf(t, c, ns, kubevirttest.QuotaName)
	try := func(patch string) *metav1.StatusDetails {
		t.Helper()
		err := c.Client.Patch(t.Context(), q.DeepCopy(),
			client.RawPatch(types.JSONPatchType, []byte(patch)))
		if !apierrors.IsInvalid(err) {
			t.Fatalf("%s: %v, want it to be invalid", patch, err)
		}
		var status apierrors.APIStatus
		errors.As(err, &status)
		return status.Status().Details
	}
	if d := try(`[{"op": "test", "path": "/metadata/annotations", "value": {"a": "b"}}]`); d !=
		nil && len(d.Causes) > 0 {
		t.Errorf("causes of a test that failed: %v", d.Causes)
	}
	if d := try(`[{"op": "add", "path": "/spec/hard", "value": {"pods": "-1"}}]`); d == nil ||
		len(d.Causes) == 0 {
		t.Error("no cause of a quota that is invalid")
	}
}
