package kubevirt

import (
	"context"
	"fmt"
)

// Upgrade moves CRDs, roles, webhooks and programs to the version in [EnvVersion], and writes it
// into the KubeVirt object. New VMs have launchers with this image. Running VMs keep their launchers,
// as with virt-operator. It builds the programs missing in the cache.
func (k *KubeVirt) Upgrade(ctx context.Context, launcherImage string) error {
	programs, err := Build(ctx, k.options.Log)
	if err != nil {
		return err
	}
	if err := k.StopController(ctx); err != nil {
		return err
	}
	if err := k.Stop(); err != nil {
		return err
	}
	k.programs, k.options.LauncherImage = programs, launcherImage
	for _, step := range []func(context.Context) error{k.install, k.startAPI, k.StartController,
		k.SetVersion} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("upgrading KubeVirt to %s: %w", Minor(), err)
		}
	}
	return nil
}
