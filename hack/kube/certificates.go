package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// serviceAddress is the address of the Service "kubernetes", the first one of envtest's range. The
// server's certificate has it for pods on a node with kube-proxy.
const serviceAddress = "10.0.0.1"

// The names of envtest's files. envtest makes them if they are missing, for loopback only.
const (
	servingCertificate = "apiserver.crt"
	servingKey         = "apiserver.key"
	signerCertificate  = "sa-signer.crt"
	signerKey          = "sa-signer.key"
)

// validity is the life of the certificates. A control plane lives for hours.
const validity = 7 * 24 * time.Hour

// writeCertificates writes the certificate of kube-apiserver and the key of its tokens into dir. It
// returns the authority of the certificate.
func writeCertificates(dir string) ([]byte, error) {
	authority, signer, err := newAuthority("kube-apiserver")
	if err != nil {
		return nil, err
	}
	if err := writeServingPair(dir, authority, signer); err != nil {
		return nil, err
	}
	tokens, key, err := newAuthority("service-accounts")
	if err != nil {
		return nil, err
	}
	if err := writePair(dir, signerCertificate, signerKey, tokens, key); err != nil {
		return nil, err
	}
	return cert.EncodeCertificates(authority)
}

func newAuthority(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	return ca, key, err
}

func writeServingPair(dir string, ca *x509.Certificate, signer *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "kube-apiserver"},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(serviceAddress)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("signing the certificate of kube-apiserver: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	return writePair(dir, servingCertificate, servingKey, parsed, key)
}

func writePair(
	dir, certificateFile, keyFile string, certificate *x509.Certificate, key *ecdsa.PrivateKey,
) error {
	text, err := cert.EncodeCertificates(certificate)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, certificateFile), text, 0o600); err != nil {
		return err
	}
	if text, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, keyFile), text, 0o600)
}
