package actor

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// unschedulableRetry is the delay before the scheduler retries a pod without a fitting Node.
const unschedulableRetry = 200 * time.Millisecond

// scheduler binds pods to the first Node that matches the node selector, is not cordoned and runs
// no other pod of the VMI. This is the effect of the launchers' affinities. It does not count
// resources.
type scheduler struct {
	api client.Client
}

// Reconcile implements reconcile.Reconciler.
func (s *scheduler) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := s.api.Get(ctx, r.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil ||
		len(pod.Spec.SchedulingGates) > 0 {
		return reconcile.Result{}, nil
	}
	name, err := s.choose(ctx, pod)
	if err != nil {
		return reconcile.Result{}, err
	}
	if name == "" {
		return reconcile.Result{RequeueAfter: unschedulableRetry}, s.reportUnschedulable(ctx, pod)
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: name}}
	if err := s.api.SubResource("binding").Create(ctx, pod, binding); ignoreRace(err) != nil {
		return reconcile.Result{}, fmt.Errorf("binding to node %q: %w", name, err)
	}
	return reconcile.Result{}, nil
}

func (s *scheduler) choose(ctx context.Context, pod *corev1.Pod) (string, error) {
	nodes := &corev1.NodeList{}
	if err := s.api.List(ctx, nodes); err != nil {
		return "", err
	}
	taken, err := s.nodesOfSameVMI(ctx, pod)
	if err != nil {
		return "", err
	}
	selector := labels.SelectorFromSet(pod.Spec.NodeSelector)
	for _, n := range nodes.Items {
		if !n.Spec.Unschedulable && !taken[n.Name] && selector.Matches(labels.Set(n.Labels)) {
			return n.Name, nil
		}
	}
	return "", nil
}

func (s *scheduler) nodesOfSameVMI(ctx context.Context, pod *corev1.Pod) (map[string]bool, error) {
	uid := pod.Labels[virtv1.CreatedByLabel]
	if uid == "" {
		return nil, nil
	}
	pods := &corev1.PodList{}
	if err := s.api.List(ctx, pods, client.InNamespace(pod.Namespace),
		client.MatchingLabels{virtv1.CreatedByLabel: uid}); err != nil {
		return nil, err
	}
	nodes := map[string]bool{}
	for _, p := range pods.Items {
		if !ended(&p) {
			nodes[p.Spec.NodeName] = true
		}
	}
	return nodes, nil
}

func (s *scheduler) reportUnschedulable(ctx context.Context, pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return nil
		}
	}
	before := pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "no node fits",
		LastTransitionTime: metav1.Now(),
	})
	return ignoreRace(s.api.Status().Patch(ctx, pod, client.MergeFrom(before)))
}
