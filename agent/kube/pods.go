package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"
)

// The indexes of pods: by their own UID, which kubelet uses for pods of the API server, and by the
// hash that kubelet uses for static pods.
const (
	byUID    = "uid"
	byMirror = "mirror"
)

// PodCache keeps the pods of one node in memory, from a watch. All methods may be called
// concurrently.
type PodCache struct {
	informer     cache.SharedIndexInformer
	findLauncher FindLauncher
	logger       *slog.Logger
}

// NewPodCache returns an empty cache of the node's pods, usually [PodsOfNode]. It sends no request;
// [PodCache.Run] does.
func NewPodCache(pods cache.ListerWatcher, node string, logger *slog.Logger) (*PodCache, error) {
	if node == "" {
		return nil, errors.New("pod cache: the node name is empty")
	}
	informer := cache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0,
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

// Run lists and watches until ctx ends. It retries lost connections with a backoff. It must be
// called once.
func (c *PodCache) Run(ctx context.Context) {
	c.informer.RunWithContext(ctx)
}

// Synced reports whether the first list is complete. Before, the cache may lack existing
// pods.
func (c *PodCache) Synced() bool {
	return c.informer.HasSynced()
}

// ServiceAccount returns the service account of a pod by the UID that the container runtime has. It
// never blocks on I/O. known is false until the cache has the pod. A static pod is known and has no
// service account.
//
// A static pod's mirror, its object in the API, names the runtime's UID in an annotation. A user may
// forge a mirror. Therefore a pod with this UID of its own takes precedence, and a UID that several
// mirrors claim is unknown.
func (c *PodCache) ServiceAccount(podUID string) (name string, known bool) {
	pod, known := c.find(podUID)
	return accountOf(pod), known
}

// find returns the pod by the UID that the container runtime has.
func (c *PodCache) find(podUID string) (*corev1.Pod, bool) {
	for _, index := range []string{byUID, byMirror} {
		// ByIndex fails only if the index does not exist.
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
		c.logger.WarnContext(ctx, "watching the pods of this node failed; service accounts of "+
			"new pods are unknown until it works again",
			slog.Any("error", err))
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// PodsOfNode lists and watches the pods of a node, by a client for the core group.
func PodsOfNode(core cache.Getter, node string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(core, "pods", metav1.NamespaceAll,
		fields.OneTermEqualSelector("spec.nodeName", node))
}

// trimPod returns a transform that keeps the agent's data of a pod, and drops the rest to save
// memory. Informers may transform an object twice, so the result keeps all data that the transform
// reads.
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
			kept.Annotations = map[string]string{
				corev1.MirrorPodAnnotationKey: pod.Annotations[corev1.MirrorPodAnnotationKey]}
			kept.OwnerReferences = pod.OwnerReferences
		}
		if owner := instanceOwner(pod); owner != nil {
			kept.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		keepDeleted(kept, pod)
		return kept, nil
	}
}

// isMirror reports whether the pod is the node's mirror of a static pod: the node owns it, and the
// API server gives mirrors no service account.
func isMirror(pod *corev1.Pod, node string) bool {
	owner := metav1.GetControllerOf(pod)
	return pod.Annotations[corev1.MirrorPodAnnotationKey] != "" &&
		pod.Spec.ServiceAccountName == "" &&
		owner != nil && owner.Kind == "Node" && owner.Name == node
}

// indexUID skips mirrors, because kubelet runs them under another UID.
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

// indexMirror indexes mirrors by the hash of their manifest.
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
