package fencing

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

// Reasons of Events on a pod.
const (
	ReasonWaits    = "PodWaitsForVM"
	ReasonReleased = "PodReleased"
)

// waitPeriod is the time between two decisions about a waiting pod without an event. Only the age
// of its node's report changes then.
const waitPeriod = time.Minute

// reconciler removes the finalizer of deleted pods. Its methods may be called concurrently.
type reconciler struct {
	cluster client.Reader // cached pods with the label, and nodes
	states  client.Reader // cached NodeStates
	writer  client.Client
	events  events.EventRecorder
	metrics *Metrics
	logger  *slog.Logger
	now     func() time.Time

	mu       sync.Mutex
	reported map[types.UID]Reason // of waiting pods
}

// Reconcile implements [reconcile.Reconciler].
func (r *reconciler) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.cluster.Get(ctx, request.NamespacedName, pod); err != nil {
		r.metrics.forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !Waits(pod) {
		r.forget(request.NamespacedName, pod.UID)
		return reconcile.Result{}, nil
	}
	facts, err := r.facts(ctx, pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	d := Decide(facts)
	if !d.Release {
		r.reportWait(pod, d)
		return reconcile.Result{RequeueAfter: waitPeriod}, nil
	}
	err = Release(ctx, r.writer, pod)
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil // the cache is older
	}
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	r.forget(request.NamespacedName, pod.UID)
	r.metrics.released.WithLabelValues(string(d.Reason)).Inc()
	r.event(pod, corev1.EventTypeNormal, ReasonReleased, d)
	return reconcile.Result{}, nil
}

// Waits reports whether a pod is deleted and has the finalizer.
func Waits(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && slices.Contains(pod.Finalizers, api.PodFinalizer)
}

// Release removes the finalizer. The error is a conflict if the pod has changed since it was read:
// a decision is about this version of the pod alone.
func Release(ctx context.Context, writer client.Client, pod *corev1.Pod) error {
	before := &corev1.Pod{}
	before.Namespace, before.Name, before.ResourceVersion = pod.Namespace, pod.Name,
		pod.ResourceVersion
	before.Finalizers = slices.Clone(pod.Finalizers)
	after := before.DeepCopy()
	after.Finalizers = slices.DeleteFunc(after.Finalizers, func(f string) bool {
		return f == api.PodFinalizer
	})
	err := writer.Patch(ctx, after, client.MergeFromWithOptions(before,
		client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("remove the finalizer of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (r *reconciler) facts(ctx context.Context, pod *corev1.Pod) (Facts, error) {
	return ReadFacts(ctx, r.cluster, r.states, pod, r.now())
}

// ReadFacts reads the objects for a decision about a pod.
func ReadFacts(
	ctx context.Context, nodes, states client.Reader, pod *corev1.Pod, now time.Time,
) (Facts, error) {
	f := Facts{Pod: pod, Now: now, Node: &corev1.Node{}, State: &v1alpha1.NodeState{}}
	key := client.ObjectKey{Name: pod.Spec.NodeName}
	if key.Name == "" {
		return Facts{Pod: pod, Now: now}, nil
	}
	if err := nodes.Get(ctx, key, f.Node); apierrors.IsNotFound(err) {
		f.Node = nil
	} else if err != nil {
		return f, fmt.Errorf("read node %s: %w", key.Name, err)
	}
	if err := states.Get(ctx, key, f.State); apierrors.IsNotFound(err) {
		f.State = nil
	} else if err != nil {
		return f, fmt.Errorf("read nodestate %s: %w", key.Name, err)
	}
	return f, nil
}

// reportWait counts a waiting pod, and writes an Event for a new reason.
func (r *reconciler) reportWait(pod *corev1.Pod, d Decision) {
	r.metrics.wait(client.ObjectKeyFromObject(pod), d.Reason, pod.DeletionTimestamp.Time)
	r.mu.Lock()
	before := r.reported[pod.UID]
	r.reported[pod.UID] = d.Reason
	r.mu.Unlock()
	if before != d.Reason {
		r.event(pod, corev1.EventTypeWarning, ReasonWaits, d)
	}
}

func (r *reconciler) forget(key types.NamespacedName, uid types.UID) {
	r.metrics.forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reported, uid)
}

// event writes and logs an Event. In a namespace that is being deleted the API server refuses it.
// The action is the decision's reason, because the recorder only counts Events with the same reason
// and action.
func (r *reconciler) event(pod *corev1.Pod, kind, reason string, d Decision) {
	on := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace,
		Name: pod.Name, UID: pod.UID}
	r.events.Eventf(on, nil, kind, reason, string(d.Reason), "%s",
		plaintext.Cut(fmt.Sprintf("%s: %s", d.Reason, d.Message), plaintext.MaxNote))
	r.logger.Info("decision about a deleted pod", "pod", pod.Namespace+"/"+pod.Name,
		"release", d.Release, "reason", d.Reason, "message", d.Message)
}
