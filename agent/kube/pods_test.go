package kube

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/google/go-cmp/cmp"
)

const testNode = "node-1"

func pod(uid, name, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			UID:         types.UID(uid),
			Namespace:   "vms",
			Name:        name,
			Labels:      map[string]string{"kubevirt.io": "virt-launcher"},
			Annotations: map[string]string{"big": "annotation"},
		},
		Spec: corev1.PodSpec{
			NodeName:           testNode,
			ServiceAccountName: account,
			Containers:         []corev1.Container{{Name: "compute", Image: "image"}},
		},
		Status: corev1.PodStatus{Message: "message"},
	}
}

func mirrorPod(apiUID, runtimeUID, name string) *corev1.Pod {
	p := pod(apiUID, name, "")
	p.Annotations[corev1.MirrorPodAnnotationKey] = runtimeUID
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: testNode,
		Controller: new(true)}}
	return p
}

// podsOf lists and watches the pods of a fake API server, which ignores the node.
func podsOf(client *fake.Clientset) cache.ListerWatcher {
	pods := client.CoreV1().Pods(metav1.NamespaceAll)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object,
			error) {
			return pods.List(ctx, options)
		},
		WatchFuncWithContext: pods.Watch,
	}, client)
}

// startCache runs a cache over client until the test ends.
func startCache(t *testing.T, client *fake.Clientset) *PodCache {
	t.Helper()
	return startCacheWith(t, client, nil)
}

func startCacheWith(t *testing.T, client *fake.Clientset, launchers FindLauncher) *PodCache {
	t.Helper()
	c, err := NewPodCache(podsOf(client), testNode, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.TrackLaunchers(launchers)
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
	eventually(t, "the first list", c.Synced)
	return c
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for !cond() {
		select {
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestServiceAccount(t *testing.T) {
	c := startCache(t, fake.NewClientset(
		pod("uid-1", "vm-1", "default"),
		mirrorPod("uid-api", "manifest-hash", "static"),
	))
	tests := map[string]struct {
		uid, want string
		known     bool
	}{
		"pod":                           {uid: "uid-1", want: "default", known: true},
		"static pod by its runtime UID": {uid: "manifest-hash", known: true},
		"static pod by its mirror UID":  {uid: "uid-api"},
		"unknown":                       {uid: "uid-2"},
		"empty":                         {},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, known := c.ServiceAccount(tt.uid)
			if got != tt.want || known != tt.known {
				t.Errorf("ServiceAccount(%q) = %q, %t; want %q, %t", tt.uid, got, known,
					tt.want, tt.known)
			}
		})
	}
}

// A user who may create a pod may write a mirror's annotation on it. So the annotation alone must not
// count.
func TestServiceAccountIsNotForgedByMirrors(t *testing.T) {
	forged := func(name, claimedUID string, change func(*corev1.Pod)) *corev1.Pod {
		p := mirrorPod("uid-"+name, claimedUID, name)
		change(p)
		return p
	}
	c := startCache(t, fake.NewClientset(
		pod("victim", "vm-1", "default"),
		forged("complete", "victim", func(*corev1.Pod) {}),
		forged("account", "by-account", func(p *corev1.Pod) {
			p.Spec.ServiceAccountName = "powerful"
		}),
		forged("owner", "by-owner", func(p *corev1.Pod) { p.OwnerReferences = nil }),
		forged("node", "by-node", func(p *corev1.Pod) { p.OwnerReferences[0].Name = "node-2" }),
		forged("kind", "by-kind", func(p *corev1.Pod) {
			p.OwnerReferences[0].Kind = "ReplicaSet"
		}),
		forged("controller", "by-controller", func(p *corev1.Pod) {
			p.OwnerReferences[0].Controller = nil
		}),
		// Two mirrors claim the same UID, so neither counts.
		mirrorPod("uid-a", "twice", "a"), mirrorPod("uid-b", "twice", "b"),
	))
	if got, known := c.ServiceAccount("victim"); got != "default" || !known {
		t.Errorf("service account of the pod = %q, %t, want its own", got, known)
	}
	if got, known := c.ServiceAccount("uid-account"); got != "powerful" || !known {
		t.Errorf("service account of a pod that only looks like a mirror = %q, %t, want its own",
			got, known)
	}
	for _, uid := range []string{"by-account", "by-owner", "by-node", "by-kind",
		"by-controller", "twice"} {
		if got, known := c.ServiceAccount(uid); known {
			t.Errorf("ServiceAccount(%q) = %q, want it unknown", uid, got)
		}
	}
}

func TestServiceAccountFollowsTheWatch(t *testing.T) {
	client := fake.NewClientset()
	c := startCache(t, client)
	pods := client.CoreV1().Pods("vms")

	if _, err := pods.Create(t.Context(), pod("uid-1", "vm-1", "late"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the created pod", func() bool {
		account, known := c.ServiceAccount("uid-1")
		return known && account == "late"
	})
	if err := pods.Delete(t.Context(), "vm-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion", func() bool {
		_, known := c.ServiceAccount("uid-1")
		return !known
	})
}

func TestServiceAccountBeforeTheFirstList(t *testing.T) {
	c, err := NewPodCache(podsOf(fake.NewClientset(pod("uid-1", "vm-1", "default"))), testNode,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, known := c.ServiceAccount("uid-1"); known || c.Synced() {
		t.Error("a cache that never listed knows a pod")
	}
}

func TestPodCacheAsksForItsNodeOnly(t *testing.T) {
	queries := make(chan url.Values, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/pods" {
			t.Errorf("unexpected request %s %s", r.Method, r.URL)
		}
		queries <- r.URL.Query()
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	clients, err := NewClients(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	pods := PodsOfNode(clients.Core, testNode)
	_, err = cache.ToListerWatcherWithContext(pods).ListWithContext(t.Context(),
		metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("list: %v, want the server's refusal", err)
	}
	if got, want := (<-queries).Get("fieldSelector"), "spec.nodeName="+testNode; got != want {
		t.Errorf("listed with field selector %q, want %q", got, want)
	}
	if _, err := NewPodCache(pods, "", slog.New(slog.DiscardHandler)); err == nil {
		t.Error("an empty node name was accepted: it would cache every pod of the cluster")
	}
}

func TestLean(t *testing.T) {
	full := pod("uid-api", "vm", "account")
	got, err := trimPod(testNode)(full)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "uid-api", Namespace: "vms", Name: "vm"},
		Spec:       corev1.PodSpec{ServiceAccountName: "account"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	mirror := mirrorPod("uid-api", "hash", "static")
	got, err = trimPod(testNode)(mirror)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = trimPod(testNode)(got); err != nil { // informers may do it twice
		t.Fatal(err)
	}
	want = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: "uid-api", Namespace: "vms", Name: "static",
		Annotations:     map[string]string{corev1.MirrorPodAnnotationKey: "hash"},
		OwnerReferences: mirror.OwnerReferences,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kept of a mirror (-want +got):\n%s", diff)
	}
}
