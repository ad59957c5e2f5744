package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Keys of the Secret.
const (
	BundleKey  = "ca.crt"
	caKeyKey   = "ca.key"
	ServedKey  = "tls.crt"
	privateKey = "tls.key"
)

const (
	// Lifetimes of certificates.
	authorityLife = 2 * 365 * 24 * time.Hour
	serverLife    = 90 * 24 * time.Hour

	// trustDelay is how long an authority is trusted before it signs. The keeper writes caBundles
	// within one period, and API servers use them within seconds.
	trustDelay = 10 * time.Minute

	// backdated compensates for clocks that are behind.
	backdated = time.Hour
)

// Renew returns the content of the Secret for a server with these names. The first name becomes the
// certificate's subject. Without a change it returns data itself. It replaces unreadable parts.
func Renew(data map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	s := read(data, now)
	changed := false
	if s.authority == nil || dueForRenewal(s.authority, now) {
		if err := s.newAuthority(now); err != nil {
			return nil, fmt.Errorf("making an authority: %w", err)
		}
		changed = true
	}
	if s.needsCertificate(names, now) || s.mayAuthoritySign(now) && s.needsNewCertificate(now) {
		if err := s.sign(names, now); err != nil {
			return nil, fmt.Errorf("making a server certificate: %w", err)
		}
		changed = true
	}
	if !changed && len(s.bundle) == s.stored {
		return data, nil
	}
	return s.write(data)
}

// state is the parsed Secret.
type state struct {
	bundle    []*x509.Certificate // newest first, without expired ones
	stored    int                 // number of certificates in the Secret, expired ones included
	authority *x509.Certificate   // newest, nil without its key
	key       crypto.Signer

	served    *x509.Certificate
	servedKey crypto.Signer
}

func read(data map[string][]byte, now time.Time) *state {
	s := &state{}
	all, _ := cert.ParseCertsPEM(data[BundleKey])
	s.stored = len(all)
	for _, c := range all {
		if now.Before(c.NotAfter) {
			s.bundle = append(s.bundle, c)
		}
	}
	if pair, err := tls.X509KeyPair(data[BundleKey], data[caKeyKey]); err == nil &&
		len(s.bundle) > 0 && s.bundle[0].Equal(all[0]) {
		s.authority, s.key = s.bundle[0], signer(pair)
	}
	if pair, err := tls.X509KeyPair(data[ServedKey], data[privateKey]); err == nil {
		s.served, s.servedKey = pair.Leaf, signer(pair)
	}
	return s
}

func signer(pair tls.Certificate) crypto.Signer {
	s, _ := pair.PrivateKey.(crypto.Signer) // true for all keys of crypto/tls
	return s
}

// dueForRenewal reports whether a certificate has used two thirds of its life.
func dueForRenewal(c *x509.Certificate, now time.Time) bool {
	return now.After(c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3))
}

// needsCertificate reports whether no valid certificate covers all names.
func (s *state) needsCertificate(names []string, now time.Time) bool {
	if s.served == nil {
		return true
	}
	roots := x509.NewCertPool()
	for _, c := range s.bundle {
		roots.AddCert(c)
	}
	for _, name := range names {
		if _, err := s.served.Verify(x509.VerifyOptions{Roots: roots, DNSName: name,
			CurrentTime: now}); err != nil {
			return true
		}
	}
	return false
}

// mayAuthoritySign reports whether the authority has been trusted for long enough.
func (s *state) mayAuthoritySign(now time.Time) bool {
	return now.After(s.authority.NotBefore.Add(backdated + trustDelay))
}

// needsNewCertificate reports whether the server certificate is due for renewal or signed by an
// older authority.
func (s *state) needsNewCertificate(now time.Time) bool {
	return dueForRenewal(s.served, now) || s.served.CheckSignatureFrom(s.authority) != nil
}

func (s *state) newAuthority(now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "mooring-webhook-ca@" +
			now.UTC().Format(time.RFC3339)},
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	c, err := create(template, template, key.Public(), key)
	if err != nil {
		return err
	}
	s.bundle = append([]*x509.Certificate{c}, s.bundle...)
	s.authority, s.key = c, key
	return nil
}

func (s *state) sign(names []string, now time.Time) error {
	if len(names) == 0 {
		return errors.New("no name to serve under")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		DNSNames:    names,
		NotBefore:   now.Add(-backdated),
		NotAfter:    now.Add(serverLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	c, err := create(template, s.authority, key.Public(), s.key)
	if err != nil {
		return err
	}
	s.served, s.servedKey = c, key
	return nil
}

func create(
	template, parent *x509.Certificate, public crypto.PublicKey, by crypto.Signer,
) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (s *state) write(data map[string][]byte) (map[string][]byte, error) {
	out := maps.Clone(data)
	if out == nil {
		out = map[string][]byte{}
	}
	var err error
	if out[caKeyKey], err = keyutil.MarshalPrivateKeyToPEM(s.key); err != nil {
		return nil, err
	}
	if out[privateKey], err = keyutil.MarshalPrivateKeyToPEM(s.servedKey); err != nil {
		return nil, err
	}
	out[BundleKey], out[ServedKey] = encode(s.bundle...), encode(s.served)
	return out, nil
}

func encode(certs ...*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: c.Raw}))
	}
	return out.Bytes()
}
