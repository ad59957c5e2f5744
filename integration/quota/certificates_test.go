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

// asked says why the webhooks are not called.
func asked(ctx context.Context, c *kubevirttest.Cluster, namespace string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	half := merge(`{"metadata": {"annotations": {"` + quota.MaintenanceAnnotation + `": "half"}}}`)
	if err := refusal(c.Client.Patch(ctx, ns, half, client.DryRunAll), "namespaces.guard.mooring.dev"); err != nil {
		return fmt.Errorf("a share that is no number: %w", err)
	}
	return nil
}

func secret(t *testing.T, c *kubevirttest.Cluster) *corev1.Secret {
	t.Helper()
	s := &corev1.Secret{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "mooring-webhook-certificates"}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCertificates: the webhooks are called, also after their certificates were lost.
func TestCertificates(t *testing.T) {
	c, _ := startServing(t)
	ns := c.Namespace(t, nil)
	called := func() error { return asked(t.Context(), c, ns) }
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

// aged are certificates that were made at one time, counted back from now, and renewed at
// others.
func aged(t *testing.T, ages ...time.Duration) map[string][]byte {
	t.Helper()
	names := []string{controllerprogram.Name + "." + system + ".svc", controllerprogram.Name + "." + system, "localhost"}
	var data map[string][]byte
	for _, age := range ages {
		var err error
		if data, err = certificates.Renew(data, names, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// rotation is a step in the life of certificates. trusted and served say what becomes of an
// authority's certificates and of the one that is served.
type rotation struct {
	ages     []time.Duration
	before   int  // authorities in the bundle
	after    int  // the same after the step
	renewed  bool // there is a new certificate to serve with
	replaced bool // the newest authority is another one
}

// TestRotation: certificates are renewed because of their age. The API server reaches the
// webhooks all the time, and trusts the old authority beside the new one.
func TestRotation(t *testing.T) {
	c := kubevirttest.Start(t)
	p := installServing(t, c)
	const nearlyOver = 90*day - time.Hour
	for name, r := range map[string]rotation{
		"what is served is old":   {ages: []time.Duration{300 * day, nearlyOver}, before: 1, after: 1, renewed: true},
		"the authority is old":    {ages: []time.Duration{500 * day, nearlyOver}, before: 1, after: 2, replaced: true},
		"the new one has settled": {ages: []time.Duration{500 * day, nearlyOver, 11 * time.Minute}, before: 2, after: 2, renewed: true},
		"the old one has run out": {ages: []time.Duration{731 * day, 200 * day, 199 * day, 30 * day}, before: 2, after: 1},
		"nothing is old":          {ages: []time.Duration{30 * day}, before: 1, after: 1},
	} {
		t.Run(name, func(t *testing.T) { r.hold(t, c, p) })
	}
}

func (r rotation) hold(t *testing.T, c *kubevirttest.Cluster, p *program) {
	ns := c.Namespace(t, nil)
	was := aged(t, r.ages...)
	bundled(t, was[certificates.BundleKey], r.before)
	keepWaiting(t, c)
	put(t, c, was)
	p.start(t)
	defer p.stop(t)
	eventually(t, "the webhooks to be called", func() error { return asked(t.Context(), c, ns) })
	defer calling(t, c, ns)()

	letLead(t, c)
	var is map[string][]byte
	eventually(t, "the certificates to be renewed", func() error {
		is = secret(t, c).Data
		return r.wrong(t, was, is)
	})
	eventually(t, "the API server to be told whom to trust", func() error {
		for name, bundle := range bundles(t, c) {
			if !bytes.Equal(bundle, is[certificates.BundleKey]) {
				return errors.New(name + " has another bundle")
			}
		}
		return nil
	})
	eventually(t, "the certificate to be served", func() error { return serves(t, p, is) })
	reconnect(t, c, is)
}

// wrong says what of the Secret is not as it should be.
func (r rotation) wrong(t *testing.T, was, is map[string][]byte) error {
	t.Helper()
	if same := bytes.Equal(was[certificates.ServedKey], is[certificates.ServedKey]); same == r.renewed {
		return fmt.Errorf("what is served is the same: %v", same)
	}
	old, now := parsed(t, was[certificates.BundleKey]), parsed(t, is[certificates.BundleKey])
	if len(now) != r.after {
		return fmt.Errorf("%d authorities, want %d", len(now), r.after)
	}
	if same := now[0].Equal(old[0]); same == r.replaced {
		return fmt.Errorf("the newest authority is the same: %v", same)
	}
	if r.after == 2 && !now[1].Equal(old[r.before-1]) {
		return errors.New("the second authority is not the old one")
	}
	if r.renewed {
		return parsed(t, is[certificates.ServedKey])[0].CheckSignatureFrom(now[0])
	}
	return nil
}

func parsed(t *testing.T, pem []byte) []*x509.Certificate {
	t.Helper()
	all, err := cert.ParseCertsPEM(pem)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// bundled wants so many authorities in a bundle.
func bundled(t *testing.T, pem []byte, n int) {
	t.Helper()
	if all := parsed(t, pem); len(all) != n {
		t.Fatalf("%d authorities to begin with, want %d", len(all), n)
	}
}

// calling calls the webhooks until the function that it returns is called, which says what
// was wrong with a call.
func calling(t *testing.T, c *kubevirttest.Cluster, namespace string) func() {
	ctx, stop := context.WithCancel(t.Context())
	calls := make(chan error, 1)
	go func() { calls <- callOn(ctx, c, namespace) }()
	return func() {
		t.Helper()
		stop()
		if err := <-calls; err != nil {
			t.Error(err)
		}
	}
}

func callOn(ctx context.Context, c *kubevirttest.Cluster, namespace string) error {
	for n := 1; ctx.Err() == nil; n++ {
		if err := asked(ctx, c, namespace); err != nil && ctx.Err() == nil {
			return fmt.Errorf("call %d: %w", n, err)
		}
	}
	return nil
}

// lease is that of who leads.
func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: controllerprogram.Name}}
}

// keepWaiting has a controller that is started find that another one leads: it serves, and
// renews nothing.
func keepWaiting(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	letLead(t, c)
	l, now := lease(), metav1.NowMicro()
	l.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("another"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now}
	if err := c.Client.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// letLead undoes keepWaiting.
func letLead(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	if err := client.IgnoreNotFound(c.Client.Delete(t.Context(), lease())); err != nil {
		t.Fatal(err)
	}
}

// put stores certificates, and has the API server trust their authorities.
func put(t *testing.T, c *kubevirttest.Cluster, data map[string][]byte) {
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
	if err := errors.Join(c.Client.Update(t.Context(), v), c.Client.Update(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
}

// serves says why a connection to the webhooks is not with the certificate of a Secret, or
// not by an authority of it.
func serves(t *testing.T, p *program, data map[string][]byte) error {
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
	if !got.Equal(parsed(t, data[certificates.ServedKey])[0]) {
		return fmt.Errorf("it is another one, good until %s", got.NotAfter)
	}
	return nil
}

// reconnect has the API server connect anew: with a bundle that is written in another way,
// which the controller then writes in its own.
func reconnect(t *testing.T, c *kubevirttest.Cluster, data map[string][]byte) {
	t.Helper()
	bundle := data[certificates.BundleKey]
	trust(t, c, append(bytes.Clone(bundle), '\n'))
	eventually(t, "the bundle to be healed", func() error {
		for name, has := range bundles(t, c) {
			if !bytes.Equal(has, bundle) {
				return errors.New(name + " has another bundle")
			}
		}
		return nil
	})
}
