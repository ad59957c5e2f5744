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

// estimatePeriod is the lifetime of an estimate and of its inputs.
const estimatePeriod = 10 * time.Second

// estimates are estimates of target pods by VMI UID.
type estimates map[types.UID]cachedEstimate

// cachedEstimate is one estimate. A failed estimate has a nil pod and is cached as well.
type cachedEstimate struct {
	pod   *v1alpha1.ReservedPod
	until time.Time
}

// firstExpiry returns the earliest expiry; zero without estimates.
func (all estimates) firstExpiry() time.Time {
	var first time.Time
	for _, e := range all {
		if first.IsZero() || e.until.Before(first) {
			first = e.until
		}
	}
	return first
}

// addClusterFacts adds to a snapshot what lies outside of its namespace. If KubeVirt's settings are
// unknown, the plan reserves for all pending migrations.
func (r *Reconciler) addClusterFacts(ctx context.Context, ns *namespace, s *quota.Snapshot) {
	r.addEstimates(ctx, ns, s)
	s.Unguarded = r.unguarded(ns, *s)
	if len(s.Migrations) == 0 {
		return
	}
	cluster, err := r.Cluster(ctx)
	if err != nil {
		r.Logger.Warn("the number of migrations that KubeVirt runs at once is unknown, so quotas "+
			"have room for all pending ones", "namespace", ns.name, "error", err)
		return
	}
	s.Parallel = quota.ParallelOf(cluster.Configuration)
}

// addEstimates adds the required estimates of target pods to a snapshot. It asks the API server for
// missing ones. These are few, because a migration continues as soon as it has room.
func (r *Reconciler) addEstimates(ctx context.Context, ns *namespace, s *quota.Snapshot) {
	maps.DeleteFunc(ns.estimates, func(_ types.UID, e cachedEstimate) bool {
		return !r.Now().Before(e.until)
	})
	s.Estimates = map[types.UID]v1alpha1.ReservedPod{}
	for _, vmi := range quota.VMIsToEstimate(*s) {
		if _, known := ns.estimates[vmi.UID]; !known {
			ns.estimates[vmi.UID] = r.newEstimate(ctx, *s, vmi)
		}
		if pod := ns.estimates[vmi.UID].pod; pod != nil {
			s.Estimates[vmi.UID] = *pod
		}
	}
}

func (r *Reconciler) newEstimate(
	ctx context.Context, s quota.Snapshot, of quota.VMI,
) cachedEstimate {
	e := cachedEstimate{until: r.Now().Add(estimatePeriod)}
	launcher, err := r.estimate(ctx, s, of)
	if err != nil {
		r.Logger.Warn("a quota rejects the target pod of a migration, and its charge cannot be "+
			"estimated",
			"namespace", s.Namespace.Name, "vm", of.Name, "error", err)
		return e
	}
	if len(launcher.Unknown) > 0 {
		r.Logger.Debug("the charge of a target pod may exceed its estimate",
			"namespace", s.Namespace.Name, "vm", of.Name, "for", launcher.Unknown)
	}
	e.pod = &launcher.Pod
	return e
}

// estimate estimates the charge of a new launcher for a VMI.
func (r *Reconciler) estimate(
	ctx context.Context, s quota.Snapshot, of quota.VMI,
) (estimate.Launcher, error) {
	vmi, err := r.readVMI(ctx, s.Namespace.Name, of)
	if err != nil {
		return estimate.Launcher{}, err
	}
	return r.estimateInstance(ctx, s, vmi)
}

func (r *Reconciler) readVMI(
	ctx context.Context, namespace string, of quota.VMI,
) (*kubevirtv1.VirtualMachineInstance, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{}
	key := client.ObjectKey{Namespace: namespace, Name: of.Name}
	if err := r.Live.Get(ctx, key, vmi); err != nil {
		return nil, fmt.Errorf("reading VirtualMachineInstance %q: %w", of.Name, err)
	}
	if vmi.UID != of.UID {
		return nil, fmt.Errorf("VirtualMachineInstance %q was replaced by a new one", of.Name)
	}
	return vmi, nil
}

func (r *Reconciler) estimateInstance(
	ctx context.Context, s quota.Snapshot, vmi *kubevirtv1.VirtualMachineInstance,
) (estimate.Launcher, error) {
	cluster, err := r.Cluster(ctx)
	if err != nil {
		return estimate.Launcher{}, err
	}
	return read.EstimateLauncher(ctx, r.Live, s.Namespace.Name,
		estimate.Input{VMI: vmi, Namespace: s.Namespace, Quotas: s.Quotas, Cluster: cluster})
}
