package fencing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

const (
	name = "mooring-fencing"

	// kindsPeriod is the period of checks for missing kinds.
	kindsPeriod = 5 * time.Second
)

// Options are options of [Add].
type Options struct {
	Events  events.EventRecorder // must not block
	Metrics *Metrics
	Logger  *slog.Logger
}

// Add adds the controller to a manager whose cache keeps [v1alpha1.NodeStateStatus.DeletedPods]. It
// starts when the API server serves NodeStates.
func Add(m manager.Manager, o Options) error { return m.Add(&starter{m, o}) }

type starter struct {
	manager manager.Manager
	Options
}

// Start waits for the kinds and adds the controller. A manager starts it as the leader.
func (s *starter) Start(ctx context.Context) error {
	gvk := v1alpha1.GroupVersion().WithKind("NodeState")
	served := func(context.Context) (bool, error) {
		_, err := s.manager.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		return err == nil, nil
	}
	if err := wait.PollUntilContextCancel(ctx, kindsPeriod, true, served); err != nil {
		return nil //nolint:nilerr // the manager stops
	}
	pods, err := s.newCache()
	if err != nil {
		return fmt.Errorf("start the fencing controller: %w", err)
	}
	options := controller.Options{Reconciler: &reconciler{
		cluster: pods, states: s.manager.GetCache(), writer: s.manager.GetClient(),
		events: s.Events, metrics: s.Metrics, logger: s.Logger, now: time.Now,
		reported: map[types.UID]Reason{},
	}}
	options.DefaultFromConfig(s.manager.GetControllerOptions())
	inner, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return fmt.Errorf("start the fencing controller: %w", err)
	}
	for _, from := range sources(pods, s.manager.GetCache()) {
		err = errors.Join(err, inner.Watch(from))
	}
	return errors.Join(err, s.manager.Add(pods), s.manager.Add(inner))
}

// newCache returns a cache of pods with the label, KubeVirt's or not, and of nodes.
func (s *starter) newCache() (cache.Cache, error) {
	return cache.New(s.manager.GetConfig(), cache.Options{
		HTTPClient: s.manager.GetHTTPClient(), Scheme: s.manager.GetScheme(),
		Mapper: s.manager.GetRESTMapper(), ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:  {Label: Labelled(), Transform: trimPod},
			&corev1.Node{}: {Transform: trimNode},
		},
	})
}

// Labelled selects the pods with the label.
func Labelled() labels.Selector {
	return labels.SelectorFromSet(labels.Set{api.FencingLabel: "true"})
}

// trimPod keeps the inputs of a decision.
func trimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{ObjectMeta: trimMeta(p.ObjectMeta),
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName}, Status: p.Status}, nil
}

func trimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	return &corev1.Node{ObjectMeta: trimMeta(n.ObjectMeta),
		Spec:   corev1.NodeSpec{Taints: n.Spec.Taints},
		Status: corev1.NodeStatus{Conditions: n.Status.Conditions}}, nil
}

func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		ResourceVersion: m.ResourceVersion, DeletionTimestamp: m.DeletionTimestamp,
		Finalizers: m.Finalizers}
}

// sources enqueue a pod after a change of it, of its node, and of the report about it.
func sources(pods, states cache.Cache) []source.Source {
	return []source.Source{
		source.Kind[client.Object](pods, &corev1.Pod{}, &handler.EnqueueRequestForObject{}),
		source.Kind[client.Object](pods, &corev1.Node{},
			handler.EnqueueRequestsFromMapFunc(podsOf(pods)), predicate.Funcs{
				UpdateFunc: func(e event.UpdateEvent) bool {
					return serviceOf(e.ObjectOld) != serviceOf(e.ObjectNew)
				},
			}),
		source.Kind[client.Object](states, &v1alpha1.NodeState{},
			handler.EnqueueRequestsFromMapFunc(reportedPods), predicate.Funcs{
				UpdateFunc: func(e event.UpdateEvent) bool {
					return !equality.Semantic.DeepEqual(reportsOf(e.ObjectOld),
						reportsOf(e.ObjectNew))
				},
			}),
	}
}

// podsOf returns the waiting pods of a node.
func podsOf(pods client.Reader) handler.MapFunc {
	return func(ctx context.Context, node client.Object) (all []reconcile.Request) {
		list := &corev1.PodList{}
		if pods.List(ctx, list) != nil {
			return nil // fails only before the cache starts
		}
		for i := range list.Items {
			if p := &list.Items[i]; Waits(p) && p.Spec.NodeName == node.GetName() {
				all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
			}
		}
		return all
	}
}

// service is the part of a node that decides.
type service struct{ ready, out bool }

func serviceOf(o client.Object) service {
	n, ok := o.(*corev1.Node)
	return service{ok && Ready(n), ok && isOutOfService(n)}
}

func reportedPods(_ context.Context, state client.Object) (all []reconcile.Request) {
	for _, r := range reportsOf(state) {
		all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{
			Namespace: r.Pod.Namespace, Name: r.Pod.Name}})
	}
	return all
}

func reportsOf(o client.Object) []v1alpha1.DeletedPodReport {
	if n, ok := o.(*v1alpha1.NodeState); ok {
		return n.Status.DeletedPods
	}
	return nil
}
