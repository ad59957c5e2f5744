package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

var secretName = types.NamespacedName{Namespace: "system", Name: "certificates"}

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace,
		Name: secretName.Name}}
}

func validating(hooks int) *admissionv1.ValidatingWebhookConfiguration {
	o := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "guard"}}
	for range hooks {
		o.Webhooks = append(o.Webhooks, admissionv1.ValidatingWebhook{Name: "a"})
	}
	return o
}

func mutating() *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "launcher"},
		Webhooks: []admissionv1.MutatingWebhook{
			{Name: "a", ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte("old")}}},
	}
}

func keeper(objects ...client.Object) *Keeper {
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	return &Keeper{
		Client: c, Reader: c, Logger: slog.New(slog.DiscardHandler), Secret: secretName,
		Names:      names,
		Validating: "guard", Mutating: "launcher", Now: time.Now,
	}
}

func stored[T client.Object](t *testing.T, k *Keeper, o T) T {
	t.Helper()
	if err := k.Reader.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestKeep(t *testing.T) {
	k := keeper(secret(), validating(2), mutating())
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept, v, m := stored(t, k, secret()), stored(t, k, validating(0)), stored(t, k, mutating())
	bundle := kept.Data[BundleKey]
	for _, got := range [][]byte{v.Webhooks[0].ClientConfig.CABundle,
		v.Webhooks[1].ClientConfig.CABundle, m.Webhooks[0].ClientConfig.CABundle} {
		if len(bundle) == 0 || !bytes.Equal(got, bundle) {
			t.Errorf("caBundle is %q, want the Secret's", got)
		}
	}
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for was, now := range map[client.Object]client.Object{
		kept: stored(t, k, secret()), v: stored(t, k, validating(0)), m: stored(t, k, mutating()),
	} {
		if was.GetResourceVersion() != now.GetResourceVersion() {
			t.Errorf("%T was written without a change", now)
		}
	}
}

func TestKeepWithoutConfigurations(t *testing.T) {
	k := keeper(secret())
	if err := k.Keep(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestKeepWithoutSecret(t *testing.T) {
	k := keeper(validating(1), mutating())
	if err := k.Keep(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "secret system/certificates") {
		t.Errorf("got %v, want an error that names the Secret", err)
	}
	if got := stored(t, k, mutating()).Webhooks[0].ClientConfig.CABundle; string(got) != "old" {
		t.Errorf("caBundle is %q, want no new authority without a Secret", got)
	}
}

// TestHolder serves like the webhook server, to a client with the API server's bundle.
func TestHolder(t *testing.T) {
	k := keeper(secret(), validating(1))
	h := &Holder{Reader: k.Reader, Logger: k.Logger, Secret: secretName}
	if err := h.Refresh(t.Context()); err == nil {
		t.Error("an empty Secret was read")
	}
	if err := h.Ready(nil); !errors.Is(err, ErrNoCertificate) {
		t.Errorf("got %v, want %v", err, ErrNoCertificate)
	}
	if err := k.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(h.Refresh(t.Context()), h.Ready(nil)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{GetCertificate: h.Certificate}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(stored(t, k, validating(0)).Webhooks[0].ClientConfig.CABundle)
	for name, trusted := range map[string]bool{names[0]: true, names[1]: true,
		"other.system.svc": false} {
		c, err := tls.Dial("tcp", server.Listener.Addr().String(),
			&tls.Config{RootCAs: roots, ServerName: name})
		if (err == nil) != trusted {
			t.Errorf("as %s: %v", name, err)
		}
		if err == nil {
			c.Close()
		}
	}
}
