package kubevirt

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"

	"github.com/mooring-vm/mooring/hack/kube"
)

const apiProgram = "virt-api"

// startAPI starts virt-api and its webhooks.
func (k *KubeVirt) startAPI(ctx context.Context) error {
	port, err := kube.FreePort()
	if err != nil {
		return err
	}
	pair, err := k.servingPair(apiProgram)
	if err != nil {
		return err
	}
	k.api, err = k.run(ctx, apiProgram, apiAccount, port,
		"--tls-cert-file="+pair.certFile,
		"--tls-key-file="+pair.keyFile,
		"--handler-cert-file="+pair.certFile,
		"--handler-key-file="+pair.keyFile,
	)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	if err := k.plane.AwaitOK(ctx, k.api, url+"/apis/subresources.kubevirt.io/v1/healthz",
		nil); err != nil {
		return err
	}
	return k.installWebhooks(ctx, url, pair.cert)
}

// pair is a self-signed certificate for loopback.
type pair struct {
	cert              []byte
	certFile, keyFile string
}

// servingPair makes the certificate of a program in a directory of its own, because the program
// reloads it when any file there changes.
func (k *KubeVirt) servingPair(name string) (pair, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1",
		[]net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return pair{}, fmt.Errorf("making a certificate for %s: %w", name, err)
	}
	dir := k.plane.File(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return pair{}, err
	}
	p := pair{cert: certificate, certFile: filepath.Join(dir, "tls.crt"),
		keyFile: filepath.Join(dir, "tls.key")}
	for path, content := range map[string][]byte{p.certFile: certificate, p.keyFile: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return pair{}, err
		}
	}
	return p, nil
}
