package kubetest

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-vm/mooring/hack/kube"
)

const quotaController = "resourcequota-controller"

func startControllers(t *testing.T, c *kube.ControlPlane, names ...string) *kube.Process {
	t.Helper()
	p, err := c.StartControllers(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopProcess(t, p) })
	return p
}

func stopProcess(t *testing.T, p *kube.Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

// TestQuotaIsEnforced checks that the API server refuses pods over a quota, by the controller's
// last status of the quota. It also stops and starts the controller.
func TestQuotaIsEnforced(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	controllers := startControllers(t, plane, quotaController)
	q := makeQuota(t, admin, namespace, "1")
	awaitPods(t, admin, q, "1")
	create(t, admin, namespace, pod("first", node, ""))
	wantRefused(t, admin, namespace)

	stopProcess(t, controllers)
	setPods(t, admin, q, "2")
	wantRefused(t, admin, namespace)

	startControllers(t, plane, quotaController)
	awaitPods(t, admin, q, "2")
	create(t, admin, namespace, pod("second", node, ""))
	wantRefused(t, admin, namespace)
}

func makeQuota(
	t *testing.T, admin kubernetes.Interface, namespace, pods string,
) *corev1.ResourceQuota {
	t.Helper()
	q, err := admin.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse(pods)}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func setPods(t *testing.T, admin kubernetes.Interface, q *corev1.ResourceQuota, pods string) {
	t.Helper()
	now, err := admin.CoreV1().ResourceQuotas(q.Namespace).Get(t.Context(), q.Name,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now.Spec.Hard[corev1.ResourcePods] = resource.MustParse(pods)
	if _, err := admin.CoreV1().ResourceQuotas(q.Namespace).Update(t.Context(), now,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitPods returns when the quota's status allows the given number of pods.
func awaitPods(t *testing.T, admin kubernetes.Interface, q *corev1.ResourceQuota, pods string) {
	t.Helper()
	eventually(t, "the quota's status", func() bool {
		now, err := admin.CoreV1().ResourceQuotas(q.Namespace).Get(t.Context(), q.Name,
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		hard := now.Status.Hard[corev1.ResourcePods]
		return hard.Cmp(resource.MustParse(pods)) == 0
	})
}

// wantRefused fails the test if the quota still allows a further pod after a while. A controller
// that has not seen the latest pod yet lowers the quota's use for a moment. A dry run creates no
// pod then.
func wantRefused(t *testing.T, admin kubernetes.Interface, namespace string) {
	t.Helper()
	eventually(t, "refusal of a pod over the quota", func() bool {
		_, err := admin.CoreV1().Pods(namespace).Create(t.Context(), pod("too-many", node, ""),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
		if err != nil && !refused {
			t.Fatalf("got %v, want exceeded quota", err)
		}
		return refused
	})
}

func TestUnknownControllerIsAnError(t *testing.T) {
	p, err := Start(t).StartControllers(t.Context(), "no-such-controller")
	if err == nil {
		stopProcess(t, p)
		t.Fatal("started")
	}
	if !strings.Contains(err.Error(), "is not in the list of known controllers") {
		t.Errorf("got %v, want an unknown controller", err)
	}
}
