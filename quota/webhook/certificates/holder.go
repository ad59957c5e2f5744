package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The times between two looks at the Secret. What is new there has been signed by an
// authority that is trusted already.
const (
	hastyPeriod  = time.Second // while there is nothing to serve with
	holderPeriod = 30 * time.Second
)

// ErrNone is that there is no certificate yet.
var ErrNone = errors.New("no certificate to serve with yet")

// Holder has the certificate that is served at the moment. Its methods are safe for
// concurrent use.
type Holder struct {
	Reader client.Reader // without a cache
	Logger *slog.Logger
	Secret types.NamespacedName

	pair    atomic.Pointer[tls.Certificate]
	read    []byte // certificate and key
	trouble string // what was told last
}

// NeedLeaderElection says that every replica serves.
func (h *Holder) NeedLeaderElection() bool { return false }

// Start follows the Secret until ctx ends. While it cannot be read, the last certificate
// stays.
func (h *Holder) Start(ctx context.Context) error {
	for {
		h.tell(h.Look(ctx))
		period := holderPeriod
		if h.pair.Load() == nil {
			period = hastyPeriod
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
	}
}

// tell logs what is wrong, once.
func (h *Holder) tell(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != h.trouble && err != nil {
		h.Logger.Warn("the certificate of the webhooks cannot be read", "secret", h.Secret.String(), "error", err)
	}
	h.trouble = now
}

// Look reads the Secret once.
func (h *Holder) Look(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := h.Reader.Get(ctx, h.Secret, secret); err != nil {
		return err
	}
	read := bytes.Join([][]byte{secret.Data[ServedKey], secret.Data[privateKey]}, nil)
	if h.pair.Load() != nil && bytes.Equal(read, h.read) {
		return nil
	}
	pair, err := tls.X509KeyPair(secret.Data[ServedKey], secret.Data[privateKey])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", ServedKey, privateKey, err)
	}
	h.read = read
	h.pair.Store(&pair)
	return nil
}

// Certificate is for [tls.Config.GetCertificate].
func (h *Holder) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := h.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, ErrNone
}

// Ready is a check for a probe: there is something to serve with.
func (h *Holder) Ready(*http.Request) error {
	_, err := h.Certificate(nil)
	return err
}
