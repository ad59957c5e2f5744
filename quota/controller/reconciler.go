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
	// unseenTimeout is how long a worker waits for caches to show what it has written.
	// Then it asks the API server.
	unseenTimeout = time.Second

	// tellers is how many workers may write at once what only tells what is: the others
	// raise quotas meanwhile, for which migrations wait. tellDelay is for those that are too
	// many.
	tellers   = 2
	tellDelay = 250 * time.Millisecond

	// The first and the longest wait after a conflict.
	minConflictDelay = 5 * time.Millisecond
	maxConflictDelay = time.Second
)

// Config is what a [Reconciler] works with.
type Config struct {
	// Client reads from caches and writes.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Cluster returns what the cluster's KubeVirt is set to. Nil: it is read with Live, each
	// time that it is needed.
	Cluster func(context.Context) (virt.Cluster, error)
	// Events records Events. It must not block.
	Events  events.EventRecorder
	Options quota.Options
	Metrics *Metrics
	Logger  *slog.Logger
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Reconciler deals with namespaces, which its requests have as names. Any number of
// namespaces may be reconciled concurrently, but each by one caller at a time.
type Reconciler struct {
	Config
	namespaces namespaces
	telling    chan struct{} // as many as tell at the moment
}

// NewReconciler returns a reconciler that remembers nothing yet.
func NewReconciler(c Config) *Reconciler {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Cluster == nil {
		c.Cluster = func(ctx context.Context) (virt.Cluster, error) { return virt.Read(ctx, c.Live) }
	}
	c.Options = c.Options.WithDefaults()
	return &Reconciler{Config: c, namespaces: namespaces{all: map[string]*namespace{}}, telling: make(chan struct{}, tellers)}
}

// Reconcile brings a namespace's ledger and quotas to what its migrations need now. It
// implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
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
	r.enterEstimates(ctx, ns, &s)
	plan := quota.MakePlan(s, r.Options)
	if plan.NeedsLive && len(plan.Actions) == 0 && !s.Live {
		if s, err = r.read(ctx, ns.name, r.lastLook()); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		r.enterEstimates(ctx, ns, &s)
		plan = quota.MakePlan(s, r.Options)
	}
	return r.carryOut(ctx, ns, s, plan)
}

// carryOut does what a plan says, and says when to plan again.
func (r *Reconciler) carryOut(ctx context.Context, ns *namespace, s quota.Snapshot, plan quota.Plan) (reconcile.Result, error) {
	all, err := r.apply(ctx, ns, s, plan)
	if stale(err) {
		r.Logger.Debug("what was planned from has changed", "namespace", ns.name, "error", err)
		return reconcile.Result{RequeueAfter: ns.conflict()}, nil
	}
	if err != nil {
		ns.distrust = true
		return reconcile.Result{}, err
	}
	ns.conflicts = 0
	again := r.again(plan, r.tellStates(ns, plan), ns.estimates.ends())
	if !all {
		return reconcile.Result{RequeueAfter: tellDelay, Priority: new(handler.LowPriority)}, nil
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// again is how long to wait for the first of some moments (zero is none), or for the news
// of what was written, which might be missed; zero: for ever.
func (r *Reconciler) again(plan quota.Plan, more ...time.Time) time.Duration {
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

// forget drops what was remembered of a namespace that is gone.
func (r *Reconciler) forget(ns *namespace) {
	r.Metrics.tell(ns.states, states{})
	r.namespaces.drop(ns.name)
}

// stale says whether a write failed because it was planned from what is not so any more.
func stale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || testFailed(err)
}
