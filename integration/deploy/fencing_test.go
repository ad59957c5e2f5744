package deploy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
)

// protect creates a living and a deleted pod with the finalizer of fencing.
func (u *installation) protect(t *testing.T) {
	t.Helper()
	for _, name := range []string{"lives", "deleted"} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: name,
				Labels:     map[string]string{api.FencingLabel: "true"},
				Finalizers: []string{api.PodFinalizer}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		if err := u.admin.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	deleted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "deleted"}}
	if err := u.admin.Delete(t.Context(), deleted, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if err := u.admin.Get(t.Context(), client.ObjectKeyFromObject(deleted), deleted); err != nil {
		t.Fatalf("a deleted pod with the finalizer: %v", err)
	}
}

// checkReleased wants the pods of protect without the finalizer.
func (u *installation) checkReleased(t *testing.T) {
	t.Helper()
	pods := &corev1.PodList{}
	if err := u.admin.List(t.Context(), pods, client.InNamespace(u.namespace)); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].Name != "lives" ||
		len(pods.Items[0].Finalizers) > 0 {
		t.Errorf("pods %+v, want only the living one, without a finalizer", pods.Items)
	}
}
