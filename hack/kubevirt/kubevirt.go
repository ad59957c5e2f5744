// Package kubevirt builds KubeVirt's virt-api and virt-controller from their module and runs them
// with a control plane. Tests see real VMs, as far as the API server shows them. [Launcher] makes
// the domain XML that virt-launcher would pass to libvirt.
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

// Namespace is KubeVirt's namespace. Name is the name of the KubeVirt object there.
const (
	Namespace = "kubevirt"
	Name      = "kubevirt"
)

// The service accounts of KubeVirt's programs. The stand-in of virt-handler uses the last one:
// virt-api rejects other writers of a VMI's status.
const (
	apiAccount        = "kubevirt-apiserver"
	controllerAccount = "kubevirt-controller"
	HandlerAccount    = "kubevirt-handler"
)

// Options of Start.
type Options struct {
	// Log reports builds, which take minutes. Required.
	Log *slog.Logger
	// LauncherImage is the image of virt-launcher. Empty: a name without an image.
	LauncherImage string
	// Configuration is the KubeVirt object's configuration in JSON. Empty: KubeVirt's defaults.
	Configuration string
}

// KubeVirt is a running virt-api with its webhooks and a virt-controller. Its methods are not safe
// for concurrent use.
type KubeVirt struct {
	plane      *kube.ControlPlane
	options    Options
	admin      client.Client
	programs   *cache.Entry
	api        *kube.Process
	controller *kube.Process
}

// Start builds the programs missing in the cache. It installs KubeVirt's CRDs, roles and a KubeVirt
// object, and returns when virt-api and virt-controller work.
// virt-operator, virt-handler and the subresources of VMs are missing.
//
// virt-controller needs the service account "default" in a VM's namespace. The
// serviceaccount-controller creates it.
//
// The programs end with the control plane. Call Stop before that, if the cache entry must become
// free.
func Start(ctx context.Context, plane *kube.ControlPlane, o Options) (_ *KubeVirt, err error) {
	k := &KubeVirt{plane: plane, options: o}
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

// Pids maps the names of the running programs to their pids.
func (k *KubeVirt) Pids() map[string]int {
	pids := map[string]int{}
	for name, p := range map[string]*kube.Process{apiProgram: k.api,
		controllerProgram: k.controller} {
		if p != nil {
			pids[name] = p.Pid()
		}
	}
	return pids
}

func (k *KubeVirt) file(name string) string { return filepath.Join(k.programs.Dir, name) }
