package controller

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/read"
)

// estimatePeriod is how long an estimate is good for, and what it is made from.
const estimatePeriod = 10 * time.Second

// estimates are those of target pods, by the UID of their VMI.
type estimates map[types.UID]estimated

// estimated is one of them. What could not be estimated is nil, for as long.
type estimated struct {
	pod   *v1alpha1.ReservedPod
	until time.Time
}

// ends is when the first of them is not good any more; zero: there is none.
func (all estimates) ends() time.Time {
	var first time.Time
	for _, e := range all {
		if first.IsZero() || e.until.Before(first) {
			first = e.until
		}
	}
	return first
}

// enterEstimates enters in a snapshot what the planner wants to know of target pods that
// nobody has seen. It asks the API server for those that it does not know, which are few: a
// migration goes on as soon as it may.
func (r *Reconciler) enterEstimates(ctx context.Context, ns *namespace, s *quota.Snapshot) {
	maps.DeleteFunc(ns.estimates, func(_ types.UID, e estimated) bool { return !r.Now().Before(e.until) })
	s.Estimates = map[types.UID]v1alpha1.ReservedPod{}
	for _, vmi := range quota.VMIsToEstimate(*s) {
		if _, known := ns.estimates[vmi.UID]; !known {
			ns.estimates[vmi.UID] = r.estimated(ctx, *s, vmi)
		}
		if pod := ns.estimates[vmi.UID].pod; pod != nil {
			s.Estimates[vmi.UID] = *pod
		}
	}
}

func (r *Reconciler) estimated(ctx context.Context, s quota.Snapshot, of quota.VMI) estimated {
	e := estimated{until: r.Now().Add(estimatePeriod)}
	launcher, err := r.estimate(ctx, s, of)
	if err != nil {
		r.Logger.Warn("a quota rejects the target pod of a migration, and what it needs is not known",
			"namespace", s.Namespace.Name, "vm", of.Name, "error", err)
		return e
	}
	if len(launcher.Unknown) > 0 {
		r.Logger.Debug("a target pod may need more than is estimated", "namespace", s.Namespace.Name, "vm", of.Name, "for", launcher.Unknown)
	}
	e.pod = &launcher.Pod
	return e
}

// estimate estimates what the launcher of a VMI would be charged if it were made now.
func (r *Reconciler) estimate(ctx context.Context, s quota.Snapshot, of quota.VMI) (estimate.Launcher, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.Namespace.Name, Name: of.Name}, vmi); err != nil {
		return estimate.Launcher{}, fmt.Errorf("reading VirtualMachineInstance %q: %w", of.Name, err)
	}
	if vmi.UID != of.UID {
		return estimate.Launcher{}, fmt.Errorf("VirtualMachineInstance %q was made anew", of.Name)
	}
	cluster, err := r.Cluster(ctx)
	if err != nil {
		return estimate.Launcher{}, err
	}
	return read.EstimateLauncher(ctx, r.Live, s.Namespace.Name, estimate.Input{VMI: vmi, Namespace: s.Namespace, Quotas: s.Quotas, Cluster: cluster})
}
