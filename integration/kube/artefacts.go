package kubetest

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/hack/artefacts"
	"github.com/mooring-vm/mooring/hack/kube"
)

func keepLogs(t testing.TB, c *kube.ControlPlane) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := copyLogs(c, t.Name())
		if err != nil {
			t.Logf("keeping the control plane's logs: %v", err)
		}
		t.Logf("the logs of its programs are in %s", dir)
	})
}

func copyLogs(c *kube.ControlPlane, name string) (string, error) {
	dir, err := artefacts.New(name)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, path := range c.Logs() {
		errs = append(errs, artefacts.Copy(path, dir))
	}
	return dir, errors.Join(errs...)
}
