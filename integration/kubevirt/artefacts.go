package kubevirttest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/hack/artefacts"
)

func keepLogs(t testing.TB, c *Cluster) {
	keep(t, "the logs of the cluster's programs", func(dir string) error {
		var errs []error
		for _, path := range c.Plane.Logs() {
			errs = append(errs, artefacts.Copy(path, dir))
		}
		return errors.Join(errs...)
	})
}

// keepObjects stores the objects of a namespace at the end of t.
func keepObjects(t testing.TB, c *Cluster, namespace string) {
	keep(t, "the objects of namespace "+namespace, func(dir string) error {
		for name, list := range map[string]client.ObjectList{
			"events":     &corev1.EventList{},
			"migrations": &virtv1.VirtualMachineInstanceMigrationList{},
			"pods":       &corev1.PodList{},
			"quotas":     &corev1.ResourceQuotaList{},
			"vmis":       &virtv1.VirtualMachineInstanceList{},
		} {
			if err := c.Client.List(cleanUp(t), list, client.InNamespace(namespace)); err != nil {
				return err
			}
			content, err := yaml.Marshal(list)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name+".yaml"), content, 0o600); err != nil {
				return err
			}
		}
		return nil
	})
}

// keep calls fill with a directory if t failed.
func keep(t testing.TB, what string, fill func(dir string) error) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := artefacts.New(t.Name())
		if err == nil {
			err = fill(dir)
		}
		if err != nil {
			t.Logf("keeping %s: %v", what, err)
		}
		t.Logf("%s are in %s", what, dir)
	})
}
