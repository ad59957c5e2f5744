package fence

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/fencing"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func newPod(name, node string, deleted bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name,
		UID: types.UID(name), Labels: map[string]string{api.FencingLabel: "true"},
		Finalizers: []string{api.PodFinalizer}}, Spec: corev1.PodSpec{NodeName: node}}
	if deleted {
		pod.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
	}
	return pod
}

func newNode(ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func newState(age time.Duration) *v1alpha1.NodeState {
	n := &v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n.Status.HeartbeatTime = metav1.NewTime(now.Add(-age))
	return n
}

// newCluster returns a cluster with a waiting pod of n1, a living one, and a waiting one of n2.
func newCluster(t *testing.T, objects ...client.Object) (c *Cluster, lines *[]string) {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	objects = append(objects, newPod("waits", "n1", true), newPod("lives", "n1", false),
		newPod("other", "n2", true))
	lines = &[]string{}
	return &Cluster{
		Client: fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).Build(),
		Now:    func() time.Time { return now },
		Print:  func(line string) { *lines = append(*lines, line) },
	}, lines
}

// held reports whether a pod still has the finalizer.
func (c *Cluster) held(t *testing.T, name string) bool {
	t.Helper()
	err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: name}, &corev1.Pod{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func TestRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		objects []client.Object
		force   bool
		refusal string // part; empty: released
	}{
		"no Node":           {nil, false, ""},
		"a Node not ready":  {[]client.Object{newNode(corev1.ConditionUnknown)}, false, ""},
		"a silent agent":    {[]client.Object{newState(time.Hour)}, false, ""},
		"a ready Node":      {[]client.Object{newNode(corev1.ConditionTrue)}, false, "it is ready"},
		"a reporting agent": {[]client.Object{newState(time.Second)}, false, "its agent reported"},
		"force":             {[]client.Object{newState(0), newNode(corev1.ConditionTrue)}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, lines := newCluster(t, tt.objects...)
			err := c.Release(t.Context(), "n1", tt.force)
			if tt.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refusal) || !c.held(t, "waits") {
					t.Errorf("got %v, want %q and the pod", err, tt.refusal)
				}
				return
			}
			if err != nil || c.held(t, "waits") || !c.held(t, "lives") || !c.held(t, "other") {
				t.Errorf("got %v, %q; want only the waiting pod of n1 to go", err, *lines)
			}
			events := &eventsv1.EventList{}
			if err := c.Client.List(t.Context(), events); err != nil {
				t.Fatal(err)
			}
			if len(events.Items) != 1 || events.Items[0].Regarding.UID != "waits" ||
				!strings.HasPrefix(events.Items[0].Note, string(fencing.NodeFenced)) {
				t.Errorf("Events %+v", events.Items)
			}
		})
	}
}

func TestReleaseWithoutPods(t *testing.T) {
	c, lines := newCluster(t)
	if err := c.Release(t.Context(), "n3", false); err != nil || len(*lines) != 1 {
		t.Errorf("%v, %q", err, *lines)
	}
}

func TestList(t *testing.T) {
	c, _ := newCluster(t, newNode(corev1.ConditionUnknown))
	all, err := c.List(t.Context(), "")
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, w := range all {
		want := map[string]fencing.Reason{"waits": fencing.NodeNotReady,
			"other": fencing.NodeDeleted}[w.Pod.Name]
		if w.Release || w.Reason != want {
			t.Errorf("%s: %+v, want %s", w.Pod.Name, w.Decision, want)
		}
	}
}
