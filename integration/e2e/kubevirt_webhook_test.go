package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/webhook"
)

// TestCertificates expects the leader to give its certificate to each webhook. The webhooks are
// reached by their Service.
func TestCertificates(t *testing.T) {
	c := start(t)
	hooks := c.client.AdmissionregistrationV1()
	eventually(t, "the webhooks' certificates", func(ctx context.Context) error {
		v, err := hooks.ValidatingWebhookConfigurations().Get(ctx, webhook.ValidatingConfiguration,
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		m, err := hooks.MutatingWebhookConfigurations().Get(ctx, webhook.MutatingConfiguration,
			metav1.GetOptions{})
		if err != nil {
			return err
		}
		var errs []error
		for _, w := range v.Webhooks {
			if w.ClientConfig.Service == nil || len(w.ClientConfig.CABundle) == 0 {
				errs = append(errs, fmt.Errorf("%s: %+v", w.Name, w.ClientConfig))
			}
		}
		for _, w := range m.Webhooks {
			if w.ClientConfig.Service == nil || len(w.ClientConfig.CABundle) == 0 {
				errs = append(errs, fmt.Errorf("%s: %+v", w.Name, w.ClientConfig))
			}
		}
		return errors.Join(errs...)
	})
}

// TestLauncherWebhook creates the launcher of a VMI that requires a lock. The API server calls the
// webhook by its Service. The webhook adds the annotations, and the agent sets the lock.
func TestLauncherWebhook(t *testing.T) {
	c := start(t)
	kv := c.kubeVirt(t)
	vmi := c.runningVMI(t, kv, namespace, "webhook", map[string]string{
		api.RequiresLockKey: "true", api.ValueKey: "1Gi"})
	pod := launcherOf(vmi, "virt-launcher-webhook")
	c.awaitLauncherWebhook(t, pod)
	c.create(t, pod)
	c.awaitRunning(t, pod.Name)
	now, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{api.LauncherKey, api.GuestMemoryKey, api.RequiresLockKey} {
		if now.Annotations[key] == "" {
			t.Errorf("no annotation %s in %v", key, now.Annotations)
		}
	}
	var locked, hard int64
	limits := c.run(t, pod.Name, "limits", "1")
	if _, err := fmt.Sscanf(limits, "memlock %d %d", &locked, &hard); err != nil {
		t.Fatalf("%q: %v", limits, err)
	}
	// 1Gi by annotation, and the guest's memory
	if locked < 1<<30+64<<20 || locked > 2<<30 {
		t.Errorf("the launcher has %q, from %v", limits, now.Annotations)
	}
}

// awaitLauncherWebhook returns when the API server calls the webhook for new launchers.
func (c *cluster) awaitLauncherWebhook(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the API server to call the webhook", func(ctx context.Context) error {
		made, err := c.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod.DeepCopy(),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && made.Annotations[api.LauncherKey] == "" {
			err = fmt.Errorf("annotations %v", made.Annotations)
		}
		return err
	})
}

// wantQuotaGuarded expects the quota webhook to refuse an edit during a migration.
func wantQuotaGuarded(t *testing.T, kv client.Client, q *corev1.ResourceQuota) {
	t.Helper()
	eventually(t, "the webhook to refuse an edit", func(ctx context.Context) error {
		edited := q.DeepCopy()
		if err := kv.Get(ctx, client.ObjectKeyFromObject(q), edited); err != nil {
			return err
		}
		edited.Spec.Hard[corev1.ResourcePods] = resource.MustParse("7")
		err := kv.Update(ctx, edited, client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "guard.mooring.dev") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
}
