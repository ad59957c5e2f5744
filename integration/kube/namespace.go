package kubetest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Namespace makes a new namespace with service accounts: "default", required for any pod, and the
// given ones. It stays, because no controller empties deleted namespaces.
func Namespace(t testing.TB, client kubernetes.Interface, serviceAccounts ...string) string {
	t.Helper()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"default"}, serviceAccounts...) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ServiceAccounts(ns.Name).Create(t.Context(), account,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return ns.Name
}
