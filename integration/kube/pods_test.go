package kubetest

import (
	"context"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
)

func pod(name, node, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName:           node,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "compute", Image: "none"}},
		},
	}
}

// create makes a pod and returns its UID, as kubelet gives it to the runtime.
func create(t *testing.T, client kubernetes.Interface, namespace string, p *corev1.Pod) string {
	t.Helper()
	created, err := client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(created.UID)
}

// runPodCache runs the agent's pod cache until the test ends.
func runPodCache(t *testing.T, clients agentkube.Clients) *agentkube.PodCache {
	t.Helper()
	c, err := agentkube.NewPodCache(agentkube.PodsOfNode(clients.Core, node), node,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c
}

func wantAccount(t *testing.T, c *agentkube.PodCache, uid, want string) {
	t.Helper()
	if got, known := c.ServiceAccount(uid); !known || got != want {
		t.Errorf("service account %q, known %t; want %q", got, known, want)
	}
}

func wantUnknown(t *testing.T, c *agentkube.PodCache, what, uid string) {
	t.Helper()
	if got, known := c.ServiceAccount(uid); known {
		t.Errorf("%s is known, with service account %q", what, got)
	}
}

func awaitKnown(t *testing.T, c *agentkube.PodCache, uid string) {
	t.Helper()
	eventually(t, "the pod to be known", func() bool {
		_, known := c.ServiceAccount(uid)
		return known
	})
}

func TestPodCacheListsThePodsOfItsNode(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "tenant")
	named := create(t, admin, namespace, pod("named", node, "tenant"))
	unnamed := create(t, admin, namespace, pod("unnamed", node, ""))
	static := pod("static", node, "")
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash-of-" + namespace}
	static.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node,
		UID: "uid-of-node", Controller: new(true)}}
	mirror := create(t, admin, namespace, static)
	forged := pod("forged", node, "")
	forged.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "forged-" + namespace}
	create(t, admin, namespace, forged)
	elsewhere := create(t, admin, namespace, pod("elsewhere", "node-2", "tenant"))

	c := runPodCache(t, agentClients(t, agentConfig(t, plane)))
	eventually(t, "the first list", c.Synced)
	wantAccount(t, c, named, "tenant")
	wantAccount(t, c, unnamed, "default")
	wantAccount(t, c, "hash-of-"+namespace, "")
	wantUnknown(t, c, "a static pod by its mirror's UID", mirror)
	wantUnknown(t, c, "the pod of a forged mirror", "forged-"+namespace)
	wantUnknown(t, c, "another node's pod", elsewhere)
}

func TestPodCacheFollowsTheScheduler(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "tenant")
	c := runPodCache(t, agentClients(t, agentConfig(t, plane)))
	eventually(t, "the first list", c.Synced)

	pending := create(t, admin, namespace, pod("pending", "", "tenant"))
	elsewhere := create(t, admin, namespace, pod("elsewhere", "node-2", "tenant"))
	// earlier pods would be in the cache by now
	awaitKnown(t, c, create(t, admin, namespace, pod("later", node, "")))
	wantUnknown(t, c, "a pod without a node", pending)
	wantUnknown(t, c, "another node's pod", elsewhere)

	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "pending"},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := admin.CoreV1().Pods(namespace).Bind(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitKnown(t, c, pending)
	wantAccount(t, c, pending, "tenant")

	now := int64(0) // no kubelet confirms a graceful deletion
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), "pending",
		metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod to be forgotten", func() bool {
		_, known := c.ServiceAccount(pending)
		return !known
	})
}

func TestPodCacheOutlivesTheAPIServer(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin, "tenant")
	before := create(t, admin, namespace, pod("before", node, "tenant"))
	c := runPodCache(t, agentClients(t, agentConfig(t, plane)))
	eventually(t, "the first list", c.Synced)

	restart(t, plane, func() { wantAccount(t, c, before, "tenant") })
	wantAccount(t, c, before, "tenant")
	after := create(t, admin, namespace, pod("after", node, ""))
	awaitKnown(t, c, after)
	wantAccount(t, c, after, "default")
}

func TestPodCacheStartsDuringAnOutage(t *testing.T) {
	plane := Start(t)
	admin := clientFor(t, plane.Config())
	namespace := Namespace(t, admin)
	uid := create(t, admin, namespace, pod("vm", node, ""))
	config := agentConfig(t, plane)
	l := newLink(t, config)
	l.cut()

	c := runPodCache(t, agentClients(t, config))
	l.awaitRefusal(t)
	if c.Synced() {
		t.Error("synced without an API server")
	}
	wantUnknown(t, c, "a pod", uid)
	l.mend()
	eventually(t, "the first list", c.Synced)
	wantAccount(t, c, uid, "default")
}
