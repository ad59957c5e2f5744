package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"

	"k8s.io/client-go/util/cert"
)

const frontProxyCA = "front-proxy-ca.crt"

// writeFrontProxyCA makes the certificate of those whom API servers that extend
// this one believe who a request is from. Its key is gone: nobody is.
func writeFrontProxyCA(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "front-proxy-ca"}, key)
	if err != nil {
		return err
	}
	pem, err := cert.EncodeCertificates(ca)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem, 0o600)
}
