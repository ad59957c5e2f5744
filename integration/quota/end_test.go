package quota

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestTimeOut has a quota with opt-out reject a migration. The migration delays the next ones only
// for a limited time.
func TestTimeOut(t *testing.T) {
	c, _ := start(t, "--rejected-timeout=2s")
	ns := c.Namespace(t, full())
	c.Quota(t, strict(ns))
	m := c.Migrate(t, c.RunningVMI(t, ns, "vm", small()))
	m.AwaitRejected(t)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseExpired)
	if r.Spec.Deadline == nil {
		t.Errorf("it has expired without a deadline: %+v", r.Spec)
	}
	if all := r.Status.Conditions; !meta.IsStatusConditionTrue(all, v1alpha1.ConditionTimedOut) ||
		!meta.IsStatusConditionFalse(all, v1alpha1.ConditionGranted) {
		t.Errorf("conditions %+v: want it to have timed out, and not to be granted", all)
	}
	awaitHard(t, c, ns, kubevirttest.QuotaName, full())
	awaitHard(t, c, ns, "strict", list("pods", "1"))
	awaitEvents(t, c, m.Get(t), quota.ReasonReserved, quota.ReasonTimedOut)
	m.Abort(t)
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
