package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

const nodePolicies = "nodepolicies"

// PolicyWatch keeps the NodePolicies of the cluster and the labels of one node in memory. Its
// methods may be called concurrently.
type PolicyWatch struct {
	policies, node cache.SharedIndexInformer
	nodeName       string
	logger         *slog.Logger
	changed        func()

	mu      sync.Mutex
	missing bool // the API server does not serve NodePolicies
}

// NewPolicyWatch returns an empty watch. It sends no request; [PolicyWatch.Run] does, and calls
// changed after each change.
func NewPolicyWatch(
	clients Clients, node string, changed func(), logger *slog.Logger,
) (*PolicyWatch, error) {
	w := &PolicyWatch{nodeName: node, changed: changed, logger: logger}
	w.policies = cache.NewSharedIndexInformer(cache.NewListWatchFromClient(clients.States,
		nodePolicies, metav1.NamespaceAll, fields.Everything()), &v1alpha1.NodePolicy{}, 0, nil)
	w.node = cache.NewSharedIndexInformer(cache.NewListWatchFromClient(clients.Core,
		"nodes", metav1.NamespaceAll, fields.OneTermEqualSelector(metav1.ObjectNameField, node)),
		&corev1.Node{}, 0, nil)
	if err := w.node.SetTransform(keepLabels); err != nil {
		return nil, fmt.Errorf("policy watch: %w", err)
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
		UpdateFunc: func(any, any) { changed() },
	}
	for _, informer := range []cache.SharedIndexInformer{w.policies, w.node} {
		if err := informer.SetWatchErrorHandlerWithContext(w.failed); err != nil {
			return nil, fmt.Errorf("policy watch: %w", err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("policy watch: %w", err)
		}
	}
	return w, nil
}

// keepLabels drops the rest of a node.
func keepLabels(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels,
		ResourceVersion: node.ResourceVersion}}, nil
}

// Run lists and watches until ctx ends. It must be called once.
func (w *PolicyWatch) Run(ctx context.Context) {
	var both sync.WaitGroup
	for _, informer := range []cache.SharedIndexInformer{w.policies, w.node} {
		both.Go(func() { informer.RunWithContext(ctx) })
	}
	both.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), w.policies.HasSynced, w.node.HasSynced) {
			w.changed()
		}
	})
	both.Wait()
}

// Synced reports whether the first lists are complete, or whether the cluster has no NodePolicies.
func (w *PolicyWatch) Synced() bool {
	w.mu.Lock()
	missing := w.missing
	w.mu.Unlock()
	return missing || w.policies.HasSynced() && w.node.HasSynced()
}

func (w *PolicyWatch) failed(ctx context.Context, r *cache.Reflector, err error) {
	w.mu.Lock()
	first := apierrors.IsNotFound(err) && !w.missing
	w.missing = w.missing || first
	w.mu.Unlock()
	switch {
	case first:
		w.logger.InfoContext(ctx, "the cluster has no NodePolicies; the policy file is in force")
		w.changed()
	case ctx.Err() == nil && !apierrors.IsNotFound(err):
		w.logger.WarnContext(ctx, "watching NodePolicies or this node failed; the policy in "+
			"force stays", slog.Any("error", err))
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// Choose returns the NodePolicy of this node; nil: none selects it. inForce names the present one.
// The error says why there is no choice. A policy beside an error is the first of those in conflict.
func (w *PolicyWatch) Choose(inForce string) (*v1alpha1.NodePolicy, error) {
	var all []*v1alpha1.NodePolicy
	for _, o := range w.policies.GetStore().List() {
		if p, ok := o.(*v1alpha1.NodePolicy); ok {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	o, exists, err := w.node.GetStore().GetByKey(w.nodeName)
	if err != nil || !exists {
		return nil, errors.Join(fmt.Errorf("the labels of node %q are unknown", w.nodeName), err)
	}
	node, ok := o.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("the store of nodes has a %T", o)
	}
	return choosePolicy(all, node.Labels, inForce)
}

// choosePolicy returns, of the policies with a selector for a node, the one with the highest
// priority. An invalid selector of the policy in force is an error: an edit must not drop the node
// to another policy. The status of other policies reports theirs.
func choosePolicy(
	all []*v1alpha1.NodePolicy, of map[string]string, inForce string,
) (*v1alpha1.NodePolicy, error) {
	var first []*v1alpha1.NodePolicy
	for _, p := range all {
		selected, err := selects(p, of)
		if err != nil && p.Name == inForce {
			return p, fmt.Errorf("spec.nodeSelector of NodePolicy %q: %w", p.Name, err)
		}
		if err != nil || !selected {
			continue
		}
		if len(first) > 0 && p.Spec.Priority > first[0].Spec.Priority {
			first = nil
		}
		if len(first) == 0 || p.Spec.Priority == first[0].Spec.Priority {
			first = append(first, p)
		}
	}
	switch len(first) {
	case 0:
		return nil, nil
	case 1:
		return first[0], nil
	}
	slices.SortFunc(first, func(a, b *v1alpha1.NodePolicy) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return first[0], fmt.Errorf("spec.priority: %d: NodePolicies %q and %q both select this node: "+
		"want different priorities, or selectors without a common node", first[0].Spec.Priority,
		first[0].Name, first[1].Name)
}

func selects(p *v1alpha1.NodePolicy, of map[string]string) (bool, error) {
	if p.Spec.NodeSelector == nil {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
	return err == nil && selector.Matches(labels.Set(of)), err
}
