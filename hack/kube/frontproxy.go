package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"os"

	"k8s.io/client-go/util/cert"
)

const frontProxyCA = "front-proxy-ca.crt"

// writeFrontProxyCA writes the certificate authority of the front proxy, which extension API
// servers trust to name the user of a request. The key is not kept, so no such proxy can exist.
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
