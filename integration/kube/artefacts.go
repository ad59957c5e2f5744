package kubetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// EnvArtefacts names the environment variable for the folder that failing
// tests keep logs in; ~/.cache/mooring/artefacts by default.
const EnvArtefacts = "MOORING_ARTEFACTS"

func keepLogs(t testing.TB, c *kube.ControlPlane) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := copyLogs(c, t.Name())
		if err != nil {
			t.Logf("keeping the control plane's logs: %v", err)
		}
		t.Logf("the logs of etcd and kube-apiserver are in %s", dir)
	})
}

func copyLogs(c *kube.ControlPlane, name string) (string, error) {
	dir, err := artefactsDir(name)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, path := range c.Logs() {
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(path)), content, 0o644)
		}
		errs = append(errs, err)
	}
	return dir, errors.Join(errs...)
}

func artefactsDir(name string) (string, error) {
	base := os.Getenv(EnvArtefacts)
	if base == "" {
		store, err := cache.Default()
		if err != nil {
			return "", err
		}
		base = store.Dir("artefacts")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	safe := strings.NewReplacer("/", "_", " ", "_").Replace(name)
	return os.MkdirTemp(base, time.Now().Format("20060102-150405-")+safe+"-")
}
