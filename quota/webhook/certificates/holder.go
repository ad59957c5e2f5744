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

// Periods of reading the Secret. Every authority is trusted before it signs, so a delay does no
// harm.
const (
	emptyPeriod  = time.Second // without a certificate
	holderPeriod = 30 * time.Second
)

// ErrNoCertificate reports that no certificate exists yet.
var ErrNoCertificate = errors.New("no certificate to serve with yet")

// Holder holds the current server certificate. Its methods are safe for concurrent use.
type Holder struct {
	Reader client.Reader // without a cache
	Logger *slog.Logger
	Secret types.NamespacedName

	pair      atomic.Pointer[tls.Certificate]
	read      []byte // certificate and key
	lastError string // already logged
}

// NeedLeaderElection returns false: every replica serves.
func (h *Holder) NeedLeaderElection() bool { return false }

// Start follows the Secret until ctx ends. While the Secret is unreadable, the last certificate
// stays.
func (h *Holder) Start(ctx context.Context) error {
	for {
		h.logError(h.Refresh(ctx))
		period := holderPeriod
		if h.pair.Load() == nil {
			period = emptyPeriod
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(period):
		}
	}
}

// logError logs a new error once.
func (h *Holder) logError(err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != h.lastError && err != nil {
		h.Logger.Warn("cannot read the certificate of the webhooks", "secret", h.Secret.String(),
			"error", err)
	}
	h.lastError = now
}

// Refresh reads the Secret once.
func (h *Holder) Refresh(ctx context.Context) error {
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

// Certificate implements [tls.Config.GetCertificate].
func (h *Holder) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := h.pair.Load(); pair != nil {
		return pair, nil
	}
	return nil, ErrNoCertificate
}

// Ready is a probe check: a certificate exists.
func (h *Holder) Ready(*http.Request) error {
	_, err := h.Certificate(nil)
	return err
}
