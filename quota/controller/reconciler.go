package controller

import (
	"context"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

const (
	// unseenTimeout is how long a worker waits for caches to show its writes. Then it reads from
	// the API server.
	unseenTimeout = time.Second

	// maxReporters is how many workers may write statuses and annotations at once. The other
	// workers raise quotas, which migrations wait for. reportDelay is the retry delay of the excess
	// workers.
	maxReporters = 2
	reportDelay  = 250 * time.Millisecond

	// Minimum and maximum wait after a conflict.
	minConflictDelay = 5 * time.Millisecond
	maxConflictDelay = time.Second
)

// Config configures a [Reconciler].
type Config struct {
	// Client reads from caches, and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Cluster returns the settings of the cluster's KubeVirt. Nil: read with Live on each use.
	Cluster func(context.Context) (virt.Cluster, error)
	// Guarded reports whether the cluster's webhooks guard the pods of a namespace. The controller
	// raises its quotas only after a proof. Nil: the cluster has no webhooks.
	Guarded func(namespace string) bool
	// Events records Events. It must not block.
	Events  events.EventRecorder
	Options quota.Options
	Metrics *Metrics
	Logger  *slog.Logger
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Reconciler reconciles namespaces by name. Different namespaces may be reconciled concurrently,
// the same namespace only by one caller at a time.
type Reconciler struct {
	Config
	namespaces namespaces
	reporting  chan struct{} // holds one token for each reporting worker
}

// NewReconciler returns a reconciler.
func NewReconciler(c Config) *Reconciler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Cluster == nil {
		c.Cluster = func(ctx context.Context) (virt.Cluster, error) {
			return virt.Read(ctx, c.Live)
		}
	}
	c.Options = c.Options.WithDefaults()
	return &Reconciler{Config: c, namespaces: namespaces{all: map[string]*namespace{}},
		reporting: make(chan struct{}, maxReporters)}
}

// Reconcile adapts ledger and quotas of a namespace to its migrations. It implements
// [reconcile.Reconciler].
func (r *Reconciler) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	ns := r.namespaces.get(request.Name)
	s, wait, err := r.snapshot(ctx, ns)
	switch {
	case apierrors.IsNotFound(err):
		r.forget(ns)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	case wait > 0:
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	r.addClusterFacts(ctx, ns, &s)
	plan := quota.MakePlan(s, r.Options)
	if plan.NeedsLive && len(plan.Actions) == 0 && !s.Live {
		if s, err = r.read(ctx, ns.name, r.liveReaders()); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		r.addClusterFacts(ctx, ns, &s)
		plan = quota.MakePlan(s, r.Options)
	}
	return r.execute(ctx, ns, s, plan)
}

// execute runs a plan and returns when to plan again.
func (r *Reconciler) execute(
	ctx context.Context, ns *namespace, s quota.Snapshot, plan quota.Plan,
) (reconcile.Result, error) {
	all, err := r.apply(ctx, ns, s, plan)
	if stale(err) {
		r.Logger.Debug("the namespace changed after the plan", "namespace", ns.name, "error", err)
		return reconcile.Result{RequeueAfter: ns.conflictDelay()}, nil
	}
	if err != nil {
		ns.cacheStale = true
		return reconcile.Result{}, err
	}
	ns.conflicts = 0
	if s.Live || !plan.NeedsLive {
		r.reportWithheld(ns, s, plan.Withheld)
	}
	again := r.requeueAfter(plan, r.reportStates(ns, plan), ns.estimates.firstExpiry())
	if plan.ProveGuard {
		wait := r.proveGuard(ctx, ns)
		if again > 0 {
			wait = min(wait, again)
		}
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if !all {
		return reconcile.Result{RequeueAfter: reportDelay, Priority: new(handler.LowPriority)}, nil
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// requeueAfter returns the wait until the first of some times (zero is none), or until events about
// the plan's writes are overdue; zero: no wait needed.
func (r *Reconciler) requeueAfter(plan quota.Plan, more ...time.Time) time.Duration {
	var after time.Duration
	sooner := func(d time.Duration) {
		if after == 0 || d < after {
			after = max(d, time.Millisecond)
		}
	}
	for _, at := range append(more, plan.NextPlan) {
		if !at.IsZero() {
			sooner(at.Sub(r.Now()))
		}
	}
	if len(plan.Actions) > 0 {
		sooner(unseenTimeout)
	}
	return after
}

// forget drops the memory of a deleted namespace.
func (r *Reconciler) forget(ns *namespace) {
	r.Metrics.setStates(ns.name, ns.states, states{})
	r.namespaces.drop(ns.name)
}

// stale reports whether a write failed because its plan is out of date.
func stale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.IsAlreadyExists(err) || testFailed(err)
}
