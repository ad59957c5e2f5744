package quota

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/certificates"
)

const day = 24 * time.Hour

// checkWebhooksCalled returns nil when the API server calls both webhooks, and else the reason.
func checkWebhooksCalled(ctx context.Context, c *kubevirttest.Cluster, namespace string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	half := merge(`{"metadata": {"annotations": {"` + quota.MaintenanceAnnotation + `": "half"}}}`)
	if err := checkRefusal(c.Client.Patch(ctx, ns, half, client.DryRunAll),
		"namespaces.guard.mooring.dev"); err != nil {
		return fmt.Errorf("share is not a number: %w", err)
	}
	return nil
}

func secret(t *testing.T, c *kubevirttest.Cluster) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := c.Client.Get(t.Context(),
		client.ObjectKey{Namespace: system, Name: "mooring-webhook-certificates"}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCertificates deletes the certificates. The controller makes new ones and the API server calls
// the webhooks again.
func TestCertificates(t *testing.T) {
	c, _ := startServing(t)
	ns := c.Namespace(t, nil)
	called := func() error { return checkWebhooksCalled(t.Context(), c, ns) }
	eventually(t, "the webhooks to be called", called)
	lost := secret(t, c)
	was := lost.Data[certificates.BundleKey]
	lost.Data = nil
	if err := c.Client.Update(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new authority to be trusted", func() error {
		for name, bundle := range bundles(t, c) {
			if bytes.Equal(bundle, was) {
				return errors.New(name + " has the old one")
			}
		}
		return nil
	})
	eventually(t, "the webhooks to be called again", called)
}

// certificatesOfAge returns Secret data with certificates created and renewed at the given ages,
// oldest first.
func certificatesOfAge(t *testing.T, ages ...time.Duration) map[string][]byte {
	t.Helper()
	names := []string{controllerprogram.Name + "." + system + ".svc", controllerprogram.Name + "." +
		system, "localhost"}
	var data map[string][]byte
	for _, age := range ages {
		var err error
		if data, err = certificates.Renew(data, names, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// rotation is one step in the life of the certificates, with the expected result for authorities
// and serving certificate.
type rotation struct {
	ages     []time.Duration
	before   int  // authorities in the bundle
	after    int  // the same after the step
	renewed  bool // the controller makes a new serving certificate
	replaced bool // the controller makes a new authority
}

// TestRotation renews certificates by age. The API server reaches the webhooks all the time, and
// trusts the old authority beside the new one.
func TestRotation(t *testing.T) {
	c := kubevirttest.Start(t)
	p := installServing(t, c)
	const nearlyOver = 90*day - time.Hour
	for name, r := range map[string]rotation{
		"old serving certificate": {ages: []time.Duration{300 * day, nearlyOver}, before: 1,
			after: 1, renewed: true},
		"old authority": {ages: []time.Duration{500 * day, nearlyOver}, before: 1, after: 2,
			replaced: true},
		"new authority settled": {ages: []time.Duration{500 * day, nearlyOver, 11 * time.Minute},
			before: 2, after: 2, renewed: true},
		"expired authority": {ages: []time.Duration{731 * day, 200 * day, 199 * day, 30 * day},
			before: 2, after: 1},
		"fresh certificates": {ages: []time.Duration{30 * day}, before: 1, after: 1},
	} {
		t.Run(name, func(t *testing.T) { r.run(t, c, p) })
	}
}

func (r rotation) run(t *testing.T, c *kubevirttest.Cluster, p *program) {
	ns := c.Namespace(t, nil)
	was := certificatesOfAge(t, r.ages...)
	wantAuthorities(t, was[certificates.BundleKey], r.before)
	takeLease(t, c)
	storeCertificates(t, c, was)
	p.start(t)
	defer p.stop(t)
	eventually(t, "the webhooks to be called", func() error {
		return checkWebhooksCalled(t.Context(), c, ns)
	})
	defer callInBackground(t, c, ns)()

	releaseLease(t, c)
	var is map[string][]byte
	eventually(t, "the certificates to be renewed", func() error {
		is = secret(t, c).Data
		return r.checkSecret(t, was, is)
	})
	eventually(t, "the API server to get the new bundle", func() error {
		for name, bundle := range bundles(t, c) {
			if !bytes.Equal(bundle, is[certificates.BundleKey]) {
				return errors.New(name + " has another bundle")
			}
		}
		return nil
	})
	eventually(t, "the certificate to be served", func() error { return checkServed(t, p, is) })
	reconnect(t, c, is)
}

// checkSecret compares the Secret with the expected result and returns the first difference.
func (r rotation) checkSecret(t *testing.T, was, is map[string][]byte) error {
	t.Helper()
	if same := bytes.Equal(was[certificates.ServedKey], is[certificates.ServedKey]); same ==
		r.renewed {
		return fmt.Errorf("serving certificate unchanged: %v", same)
	}
	old, now := parseCertificates(t, was[certificates.BundleKey]),
		parseCertificates(t, is[certificates.BundleKey])
	if len(now) != r.after {
		return fmt.Errorf("%d authorities, want %d", len(now), r.after)
	}
	if same := now[0].Equal(old[0]); same == r.replaced {
		return fmt.Errorf("newest authority unchanged: %v", same)
	}
	if r.after == 2 && !now[1].Equal(old[r.before-1]) {
		return errors.New("the second authority is not the old one")
	}
	if r.renewed {
		return parseCertificates(t, is[certificates.ServedKey])[0].CheckSignatureFrom(now[0])
	}
	return nil
}

func parseCertificates(t *testing.T, pem []byte) []*x509.Certificate {
	t.Helper()
	all, err := cert.ParseCertsPEM(pem)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantAuthorities fails t unless the bundle contains n authorities.
func wantAuthorities(t *testing.T, pem []byte, n int) {
	t.Helper()
	if all := parseCertificates(t, pem); len(all) != n {
		t.Fatalf("%d authorities to begin with, want %d", len(all), n)
	}
}

// callInBackground calls the webhooks in the background. The returned function stops this and fails
// t if a call failed.
func callInBackground(t *testing.T, c *kubevirttest.Cluster, namespace string) func() {
	ctx, stop := context.WithCancel(t.Context())
	calls := make(chan error, 1)
	go func() { calls <- callUntilDone(ctx, c, namespace) }()
	return func() {
		t.Helper()
		stop()
		if err := <-calls; err != nil {
			t.Error(err)
		}
	}
}

func callUntilDone(ctx context.Context, c *kubevirttest.Cluster, namespace string) error {
	for n := 1; ctx.Err() == nil; n++ {
		if err := checkWebhooksCalled(ctx, c, namespace); err != nil && ctx.Err() == nil {
			return fmt.Errorf("call %d: %w", n, err)
		}
	}
	return nil
}

// lease returns the key of the controller's leader-election lease.
func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system,
		Name: controllerprogram.Name}}
}

// takeLease gives the lease to another holder. A controller started afterwards serves webhooks
// and renews no certificates.
func takeLease(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	releaseLease(t, c)
	l, now := lease(), metav1.NowMicro()
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("another"),
		LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now}
	if err := c.Client.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// releaseLease deletes the lease taken by keepWaiting.
func releaseLease(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	if err := client.IgnoreNotFound(c.Client.Delete(t.Context(), lease())); err != nil {
		t.Fatal(err)
	}
}

// storeCertificates stores certificates in the Secret and makes the API server trust their
// authorities.
func storeCertificates(t *testing.T, c *kubevirttest.Cluster, data map[string][]byte) {
	t.Helper()
	s := secret(t, c)
	s.Data = data
	if err := c.Client.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	trust(t, c, data[certificates.BundleKey])
}

func trust(t *testing.T, c *kubevirttest.Cluster, bundle []byte) {
	t.Helper()
	v, m := configurations(t, c)
	for i := range v.Webhooks {
		v.Webhooks[i].ClientConfig.CABundle = bundle
	}
	for i := range m.Webhooks {
		m.Webhooks[i].ClientConfig.CABundle = bundle
	}
	if err := errors.Join(c.Client.Update(t.Context(), v), c.Client.Update(t.Context(), m)); err !=
		nil {
		t.Fatal(err)
	}
}

// checkServed returns nil when the webhook server presents the certificate of the Secret, signed by
// one of its authorities.
func checkServed(t *testing.T, p *program, data map[string][]byte) error {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[certificates.BundleKey])
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	connection, err := dialer.DialContext(t.Context(), "tcp", p.webhooks)
	if err != nil {
		return err
	}
	defer connection.Close()
	got := connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
	if !got.Equal(parseCertificates(t, data[certificates.ServedKey])[0]) {
		return fmt.Errorf("served another certificate, valid until %s", got.NotAfter)
	}
	return nil
}

// reconnect makes the API server open a new connection. It writes the bundle in another encoding,
// and the controller then writes its own.
func reconnect(t *testing.T, c *kubevirttest.Cluster, data map[string][]byte) {
	t.Helper()
	bundle := data[certificates.BundleKey]
	trust(t, c, append(bytes.Clone(bundle), '\n'))
	eventually(t, "the controller to rewrite the bundle", func() error {
		for name, has := range bundles(t, c) {
			if !bytes.Equal(has, bundle) {
				return errors.New(name + " has another bundle")
			}
		}
		return nil
	})
}
