package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// byRuntimeUID indexes pods by the UID that kubelet gives the container runtime.
const byRuntimeUID = "runtimeUID"

// PodCache knows the pods of one node from a watch, and answers from memory.
// All methods may be called concurrently.
type PodCache struct {
	informer cache.SharedIndexInformer
	logger   *slog.Logger
}

// NewPodCache returns an empty cache of the pods that are bound to node. It
// makes no call; [PodCache.Run] does.
func NewPodCache(client kubernetes.Interface, node string, logger *slog.Logger) (*PodCache, error) {
	if node == "" {
		return nil, errors.New("pod cache: the node name is empty")
	}
	informer := cache.NewSharedIndexInformer(podsOfNode(client, node), &corev1.Pod{}, 0,
		cache.Indexers{byRuntimeUID: indexRuntimeUID})
	c := &PodCache{informer: informer, logger: logger}
	if err := informer.SetTransform(lean); err != nil {
		return nil, fmt.Errorf("pod cache: set transform: %w", err)
	}
	if err := informer.SetWatchErrorHandlerWithContext(c.watchFailed); err != nil {
		return nil, fmt.Errorf("pod cache: set error handler: %w", err)
	}
	return c, nil
}

// Run lists and watches until ctx is done; lost connections are retried with a
// backoff. It must be called once.
func (c *PodCache) Run(ctx context.Context) {
	c.informer.RunWithContext(ctx)
}

// Synced reports whether the first list has arrived. An unknown pod means
// nothing before that.
func (c *PodCache) Synced() bool {
	return c.informer.HasSynced()
}

// ServiceAccount returns the service account of the pod whose UID the container
// runtime knows. It never blocks on I/O. known is false while the pod has not
// been seen (yet); a static pod is known and has no service account.
func (c *PodCache) ServiceAccount(podUID string) (name string, known bool) {
	// The only error is an index that does not exist.
	pods, err := c.informer.GetIndexer().ByIndex(byRuntimeUID, podUID)
	if err != nil || len(pods) == 0 {
		return "", false
	}
	pod, ok := pods[0].(*corev1.Pod)
	if !ok {
		return "", false
	}
	return pod.Spec.ServiceAccountName, true
}

func (c *PodCache) watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if ctx.Err() == nil {
		c.logger.WarnContext(ctx, "watching the pods of this node failed; service accounts of new pods are unknown until it works again",
			slog.Any("error", err))
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

func podsOfNode(client kubernetes.Interface, node string) cache.ListerWatcher {
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return pods.Watch(ctx, options)
		},
	}, client)
}

// lean keeps of a pod what the agent answers from, so that memory does not
// grow with the size of pod specs and statuses.
func lean(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID:             pod.UID,
			Namespace:       pod.Namespace,
			Name:            pod.Name,
			ResourceVersion: pod.ResourceVersion,
		},
		Spec: corev1.PodSpec{ServiceAccountName: pod.Spec.ServiceAccountName},
	}
	if uid, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: uid}
	}
	return kept, nil
}

// indexRuntimeUID returns the UID under which the runtime knows the pod. A
// static pod runs under the hash of its manifest; the API server shows a mirror
// of it that has a UID of its own.
func indexRuntimeUID(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("pod cache: cannot index a %T", obj)
	}
	if uid, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return []string{uid}, nil
	}
	return []string{string(pod.UID)}, nil
}
