// Package kubevirt builds KubeVirt's virt-api and virt-controller from their
// module and runs them beside a control plane: real VMs as far as the API server
// sees them, for tests. [Launcher] is what virt-launcher makes of them for libvirt.
package kubevirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// Namespace is KubeVirt's own, and Name that of the KubeVirt object in it.
const (
	Namespace = "kubevirt"
	Name      = "kubevirt"
)

// The service accounts of KubeVirt's programs. The last one is for who stands in
// for virt-handler: virt-api lets nobody else write the status of a VMI.
const (
	apiAccount        = "kubevirt-apiserver"
	controllerAccount = "kubevirt-controller"
	HandlerAccount    = "kubevirt-handler"
)

// Options of Start.
type Options struct {
	// Log hears of a build, which takes minutes. Required.
	Log *slog.Logger
}

// KubeVirt is what runs of KubeVirt beside a control plane: virt-api with its
// webhooks, and virt-controller. Its methods are not safe for concurrent use.
type KubeVirt struct {
	plane      *kube.ControlPlane
	admin      client.Client
	programs   *cache.Entry
	api        *kube.Process
	controller *kube.Process
}

// Start builds what is not cached, installs KubeVirt's CRDs, roles and an object
// of kind KubeVirt that is deployed and has nothing configured, and returns when
// virt-api and virt-controller work. virt-operator and virt-handler are left out,
// and so are the subresources of VMs, which virt-api would serve to who asks it.
//
// virt-controller wants the service account "default" in a VM's namespace, which
// serviceaccount-controller makes.
//
// All ends with the control plane; Stop is for those who want the cache back, and
// to be called before.
func Start(ctx context.Context, plane *kube.ControlPlane, o Options) (_ *KubeVirt, err error) {
	k := &KubeVirt{plane: plane}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.Stop())
		}
	}()
	if k.admin, err = client.New(plane.Config(), client.Options{}); err != nil {
		return nil, err
	}
	if k.programs, err = Build(ctx, o.Log); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{k.install, k.startAPI, k.StartController} {
		if err = step(ctx); err != nil {
			return nil, fmt.Errorf("starting KubeVirt: %w", err)
		}
	}
	return k, nil
}

// Stop ends the programs. It may be called more than once.
func (k *KubeVirt) Stop() error {
	var errs []error
	for _, p := range []*kube.Process{k.controller, k.api} {
		if p != nil {
			errs = append(errs, p.Stop())
		}
	}
	if k.programs != nil {
		errs = append(errs, k.programs.Close())
	}
	k.controller, k.api, k.programs = nil, nil, nil
	return errors.Join(errs...)
}

// Pids are those of the programs that run, by their names.
func (k *KubeVirt) Pids() map[string]int {
	pids := map[string]int{}
	for name, p := range map[string]*kube.Process{apiProgram: k.api, controllerProgram: k.controller} {
		if p != nil {
			pids[name] = p.Pid()
		}
	}
	return pids
}

func (k *KubeVirt) file(name string) string { return filepath.Join(k.programs.Dir, name) }
