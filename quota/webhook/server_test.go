package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/mooring-vm/mooring/quota/webhook/certificates"
)

const serverName = "mooring-controller.mooring-system.svc"

// issue writes a certificate of a new authority, as kubelet writes a mounted Secret, and returns
// the authority.
func issue(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	data, err := certificates.Renew(nil, []string{serverName}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tls.key", "tls.crt"} {
		next := filepath.Join(dir, name+".next")
		err := errors.Join(os.WriteFile(next, data[name], 0o600),
			os.Rename(next, filepath.Join(dir, name)))
		if err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[certificates.BundleKey])
	return roots
}

// freeAddress returns an address of the loopback interface that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String()
}

// TestCertificateOfAnotherIssuer serves with files, and with newer files without a restart.
func TestCertificateOfAnotherIssuer(t *testing.T) {
	dir := t.TempDir()
	first := issue(t, dir)
	address := freeAddress(t)
	server, err := newServer(address, webhook.Options{CertDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	awaitTrust(t, address, first)
	if err := server.StartedChecker()(nil); err != nil {
		t.Error(err)
	}
	awaitTrust(t, address, issue(t, dir))
}

// awaitTrust waits until a client with this authority, and TLS 1.3 alone, can connect.
func awaitTrust(t *testing.T, address string, roots *x509.CertPool) {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: serverName,
		MinVersion: tls.VersionTLS13}}
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if last = err; err == nil {
				last = conn.Close()
			}
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("%v: %v", err, last)
	}
}
