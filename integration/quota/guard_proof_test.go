package quota

import (
	"fmt"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestGuardIsProvenFirst takes the webhook for pods away. The controller raises no quota then, and
// the migration goes on when the webhook is back.
func TestGuardIsProvenFirst(t *testing.T) {
	c, _ := startGuarded(t)
	raised, ns := c.Namespace(t, full()), c.Namespace(t, full())
	first, _ := charged(t, c, raised)
	probe := func() error {
		return c.Client.Create(t.Context(), quota.Probe(raised), client.DryRunAll)
	}
	if err := probe(); !quota.IsProof(err) {
		t.Fatalf("a probe in a namespace with a raised quota: %v", err)
	}
	hooks := setPodsWebhook(t, c, nil)
	eventually(t, "the API server to forget the webhook", func() error {
		if err := probe(); quota.IsProof(err) {
			return err
		}
		return nil
	})
	vmi := c.RunningVMI(t, ns, "vm", small())
	c.SetHard(t, ns, c.Used(t, ns))
	base := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard
	m := c.Migrate(t, vmi)
	eventually(t, "a condition that names the guard", func() error {
		for _, r := range reservations(t, c, ns) {
			waiting := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionWaiting)
			if waiting != nil && waiting.Reason == "WaitingForGuard" {
				return checkParts(fmt.Errorf("%s", waiting.Message), "does not guard the namespace")
			}
		}
		return fmt.Errorf("%+v", reservations(t, c, ns))
	})
	if is := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard; !equality.Semantic.DeepEqual(is,
		base) {
		t.Errorf("spec.hard is %v without a guard, want %v", is, base)
	}
	setPodsWebhook(t, c, hooks)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
	eventually(t, "the label to be removed", func() error {
		o := &corev1.Namespace{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, o); err != nil {
			return err
		}
		if o.Labels[quota.ReservedLabel] != "" {
			return fmt.Errorf("labels %v", o.Labels)
		}
		return nil
	})
	first.GoOn(t)
	first.Await(t, kubevirtv1.MigrationSucceeded)
}

// setPodsWebhook removes the webhook for pods and returns it, or adds it again.
func setPodsWebhook(
	t *testing.T, c *kubevirttest.Cluster, add []admissionv1.ValidatingWebhook,
) []admissionv1.ValidatingWebhook {
	t.Helper()
	isIt := func(w admissionv1.ValidatingWebhook) bool { return w.Name == "pods.guard.mooring.dev" }
	var removed []admissionv1.ValidatingWebhook
	eventually(t, "the write of the webhooks", func() error {
		v, _ := configurations(t, c)
		removed = nil
		for _, w := range v.Webhooks {
			if isIt(w) {
				removed = append(removed, w)
			}
		}
		v.Webhooks = append(slices.DeleteFunc(v.Webhooks, isIt), add...)
		return c.Client.Update(t.Context(), v)
	})
	return removed
}
