package nodepolicy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

const (
	name = "mooring-nodepolicy"

	// kindsPeriod is the period of checks for missing kinds.
	kindsPeriod = 5 * time.Second

	// delay collects the reports of many nodes into one write.
	delay = time.Second
)

// Add adds the controller to a manager. It starts when the API server serves the kinds.
func Add(m manager.Manager, logger *slog.Logger) error { return m.Add(&starter{m, logger}) }

type starter struct {
	manager manager.Manager
	logger  *slog.Logger
}

// Start waits for the kinds and adds the controller. A manager starts it as the leader.
func (s *starter) Start(ctx context.Context) error {
	warned := false
	served := func(context.Context) (bool, error) {
		err := errors.Join(s.served("NodePolicy"), s.served("NodeState"))
		if err != nil && !warned {
			warned = true
			s.logger.Warn("waiting for Mooring's CRDs; until then no NodePolicy has a status",
				"error", err)
		}
		return err == nil, nil
	}
	if err := wait.PollUntilContextCancel(ctx, kindsPeriod, true, served); err != nil {
		return nil //nolint:nilerr // the manager stops
	}
	options := controller.Options{Reconciler: &reconciler{s.manager.GetClient()}}
	options.DefaultFromConfig(s.manager.GetControllerOptions())
	inner, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return fmt.Errorf("starting the controller of NodePolicies: %w", err)
	}
	kinds := s.manager.GetCache()
	for _, from := range []source.Source{
		source.Kind(kinds, &v1alpha1.NodePolicy{},
			&handler.TypedEnqueueRequestForObject[*v1alpha1.NodePolicy]{}),
		source.Kind(kinds, &v1alpha1.NodeState{}, byReport()),
	} {
		if err := inner.Watch(from); err != nil {
			return fmt.Errorf("starting the controller of NodePolicies: %w", err)
		}
	}
	return s.manager.Add(inner)
}

// served returns nil if the API server serves a kind of Mooring.
func (s *starter) served(kind string) error {
	gvk := v1alpha1.GroupVersion().WithKind(kind)
	_, err := s.manager.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	return err
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// byReport enqueues the policy that a node reports, before and after a change of the report.
func byReport() handler.TypedEventHandler[*v1alpha1.NodeState, reconcile.Request] {
	add := func(q queue, n *v1alpha1.NodeState) {
		if r := n.Status.Policy; r != nil && r.Name != "" {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: r.Name}}, delay)
		}
	}
	return handler.TypedFuncs[*v1alpha1.NodeState, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*v1alpha1.NodeState], q queue) {
			add(q, e.Object)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*v1alpha1.NodeState], q queue) {
			add(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*v1alpha1.NodeState], q queue) {
			wasSilent := e.ObjectOld.Silent(e.ObjectNew.Status.HeartbeatTime.Time)
			if wasSilent || !equality.Semantic.DeepEqual(e.ObjectOld.Status.Policy,
				e.ObjectNew.Status.Policy) {
				add(q, e.ObjectOld)
				add(q, e.ObjectNew)
			}
		},
	}
}

// reconciler writes the status of policies.
type reconciler struct{ client client.Client }

// Reconcile implements [reconcile.Reconciler].
func (r *reconciler) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	p := &v1alpha1.NodePolicy{}
	if err := r.client.Get(ctx, request.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	nodes := &v1alpha1.NodeStateList{}
	if err := r.client.List(ctx, nodes); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing node states: %w", err)
	}
	now := time.Now()
	status := Summarise(p, nodes.Items, now)
	result := reconcile.Result{RequeueAfter: untilSilent(p, nodes.Items, now)}
	if equality.Semantic.DeepEqual(status, p.Status) {
		return result, nil
	}
	next := p.DeepCopy() // the cache shares its objects
	next.Status = status
	err := r.client.Status().Update(ctx, next)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: delay}, nil
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of NodePolicy %q: %w", p.Name, err)
	}
	return result, nil
}

// untilSilent returns the time after which the first node with the policy may be silent, 0 without
// such a node.
func untilSilent(
	p *v1alpha1.NodePolicy, nodes []v1alpha1.NodeState, now time.Time,
) (first time.Duration) {
	for i := range nodes {
		n := &nodes[i]
		if r := n.Status.Policy; r == nil || r.Name != p.Name || n.Silent(now) {
			continue
		}
		left := n.Status.HeartbeatTime.Add(v1alpha1.NodeStateMaxAge).Sub(now) + delay
		if first == 0 || left < first {
			first = left
		}
	}
	return first
}
