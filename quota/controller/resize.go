package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/resizevm"
)

// resizes starts the reconciler of VM sizes.
type resizes struct {
	*Controller
	quotas *Reconciler
}

// NeedLeaderElection returns true, unlike that of the embedded Controller.
func (r *resizes) NeedLeaderElection() bool { return true }

// Start waits until the API server serves NodeStates, which report the sizes of VMs, and adds the
// reconciler to the manager.
func (r *resizes) Start(ctx context.Context) error {
	served := func(context.Context) (bool, error) {
		gvk := v1alpha1.GroupVersion().WithKind("NodeState")
		_, err := r.manager.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		return err == nil, nil
	}
	if err := wait.PollUntilContextCancel(ctx, kindsPeriod, true, served); err != nil {
		return nil //nolint:nilerr // the manager stops
	}
	sizes := resizevm.NewReconciler(resizevm.Config{
		Client: r.quotas.Client, Live: r.quotas.Live, Events: r.quotas.Events,
		Cluster: r.quotas.Cluster, Options: r.quotas.Options, Logger: r.quotas.Logger,
		Snapshot: func(ctx context.Context, namespace string) (quota.Snapshot, error) {
			return r.quotas.read(ctx, namespace, r.quotas.liveReaders())
		},
	})
	return r.add(Name+"-resize", sizes, resizevm.Sources(r.manager.GetCache())...)
}
