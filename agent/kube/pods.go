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

// The indexes of pods: by their own UID, under which kubelet runs those of the
// API server, and by the hash under which it runs static pods.
const (
	byUID    = "uid"
	byMirror = "mirror"
)

// PodCache knows the pods of one node from a watch, and answers from memory.
// All methods may be called concurrently.
type PodCache struct {
	informer     cache.SharedIndexInformer
	findLauncher FindLauncher
	logger       *slog.Logger
}

// NewPodCache returns an empty cache of the pods that are bound to node. It
// makes no call; [PodCache.Run] does.
func NewPodCache(client kubernetes.Interface, node string, logger *slog.Logger) (*PodCache, error) {
	if node == "" {
		return nil, errors.New("pod cache: the node name is empty")
	}
	informer := cache.NewSharedIndexInformer(podsOfNode(client, node), &corev1.Pod{}, 0,
		cache.Indexers{byUID: indexUID, byMirror: indexMirror})
	c := &PodCache{informer: informer, logger: logger}
	if err := informer.SetTransform(c.withDesired(trimPod(node))); err != nil {
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
//
// Anybody may write a mirror's annotation on a pod of theirs. So a pod of the API
// server that has the UID itself comes first, and where several mirrors claim a
// UID, nothing is known.
func (c *PodCache) ServiceAccount(podUID string) (name string, known bool) {
	pod, known := c.find(podUID)
	return accountOf(pod), known
}

// find returns the pod whose UID the container runtime knows.
func (c *PodCache) find(podUID string) (*corev1.Pod, bool) {
	for _, index := range []string{byUID, byMirror} {
		// The only error is an index that does not exist.
		pods, err := c.informer.GetIndexer().ByIndex(index, podUID)
		if err != nil || len(pods) > 1 {
			return nil, false
		}
		if len(pods) == 1 {
			pod, ok := pods[0].(*corev1.Pod)
			return pod, ok
		}
	}
	return nil, false
}

func accountOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return pod.Spec.ServiceAccountName
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

// leanOn returns what keeps of a pod of the node what the agent answers from, so
// that memory does not grow with the size of pod specs and statuses. Informers
// may call it on what it has returned: it must keep all that it looks at.
func trimPod(node string) cache.TransformFunc {
	return func(obj any) (any, error) {
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
		if isMirror(pod, node) {
			kept.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: pod.Annotations[corev1.MirrorPodAnnotationKey]}
			kept.OwnerReferences = pod.OwnerReferences
		}
		return kept, nil
	}
}

// isMirror reports whether kubelet of the node has made the pod to show a static
// one: it owns it, and the API server gives mirrors no service account.
func isMirror(pod *corev1.Pod, node string) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Annotations[corev1.MirrorPodAnnotationKey] != "" && pod.Spec.ServiceAccountName == "" &&
		owner != nil && owner.Kind == "Node" && owner.Name == node
}

// indexUID leaves out mirrors, which run under another UID.
func indexUID(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, errNoPod(obj)
	}
	if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return nil, nil
	}
	return []string{string(pod.UID)}, nil
}

// indexMirror knows mirrors by the hash of the manifest that they are of.
func indexMirror(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, errNoPod(obj)
	}
	if uid, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return []string{uid}, nil
	}
	return nil, nil
}

func errNoPod(obj any) error { return fmt.Errorf("pod cache: cannot index a %T", obj) }
