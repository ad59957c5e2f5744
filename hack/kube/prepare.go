package kube

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

//go:embed authentication.yaml
var authentication []byte

// prepare fills the temporary directory. envtest keeps directories that it did not make itself, so
// kube-apiserver can be restarted.
func (c *ControlPlane) prepare(o Options) error {
	in := func(name string) string { return filepath.Join(c.temp.Dir, name) }
	for _, dir := range []string{in("etcd"), in("certificates")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(in("authentication.yaml"), authentication, 0o600); err != nil {
		return err
	}
	if err := writeFrontProxyCA(in(frontProxyCA)); err != nil {
		return err
	}
	authority, err := writeCertificates(in("certificates"))
	if err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	etcd := &envtest.Etcd{Path: c.program("etcd"), DataDir: in("etcd"), StartTimeout: startTimeout}
	server := &envtest.APIServer{Path: c.program("kube-apiserver"), CertDir: in("certificates"),
		StartTimeout: startTimeout}
	server.SecureServing.CA = authority
	server.Configure().
		Set("authentication-config", in("authentication.yaml")).
		// envtest disables some of them.
		Disable("disable-admission-plugins").
		// Otherwise the open watches of clients delay its end for a minute.
		Set("shutdown-send-retry-after", "true").
		// The machine may have no address except loopback.
		Set("advertise-address", "127.0.0.1").
		Set("endpoint-reconciler-type", "none").
		// Every distribution sets these. Extension API servers need them.
		Set("requestheader-client-ca-file", in(frontProxyCA)).
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-")
	if o.NodeProxy != "" {
		if err := useProxy(server, in("egress.yaml"), o.NodeProxy); err != nil {
			return err
		}
	}
	c.plane = &envtest.ControlPlane{Etcd: etcd, APIServer: server}
	return c.keepLogs()
}

func (c *ControlPlane) keepLogs() error {
	etcd, err := c.log("etcd.log")
	if err != nil {
		return err
	}
	server, err := c.log("kube-apiserver.log")
	if err != nil {
		return err
	}
	c.plane.Etcd.Out, c.plane.Etcd.Err = etcd, etcd
	c.plane.APIServer.Out, c.plane.APIServer.Err = server, server
	return nil
}
