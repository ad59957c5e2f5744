package fencing

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

func newReconciler(t *testing.T, objects ...client.Object) (*reconciler, *events.FakeRecorder) {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.NodeState{}).Build()
	recorder := events.NewFakeRecorder(10)
	m := NewMetrics(prometheus.NewRegistry())
	m.now = func() time.Time { return start.Add(time.Minute) }
	return &reconciler{cluster: c, states: c, writer: c, events: recorder, metrics: m,
		logger: slog.New(slog.DiscardHandler), now: func() time.Time { return start },
		reported: map[types.UID]Reason{}}, recorder
}

func protectedPod() *corev1.Pod {
	pod := endedPod()
	pod.Labels = map[string]string{api.FencingLabel: "true"}
	pod.Finalizers = []string{"example.com/a", api.PodFinalizer}
	return pod
}

// TestReconcile: the controller reports a wait once, and its end after the proof. It leaves other
// finalizers.
func TestReconcile(t *testing.T) {
	f := facts()
	f.State.Status.DeletedPods[0].Ended = false
	r, recorder := newReconciler(t, protectedPod(), f.Node, f.State)
	key := types.NamespacedName{Namespace: "ns", Name: "vm"}
	reconciled := func() reconcile.Result {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := reconciled(); result.RequeueAfter != waitPeriod {
		t.Errorf("result %+v", result)
	}
	reconciled()
	if got := len(recorder.Events); got != 1 {
		t.Errorf("%d Events of one wait", got)
	}
	if got := <-recorder.Events; !strings.HasPrefix(got, "Warning PodWaitsForVM VMRuns: ") {
		t.Errorf("Event %q", got)
	}
	want := `
# HELP mooring_fencing_longest_wait_seconds Longest time of a waiting pod since the end of its grace period, by the missing part.
# TYPE mooring_fencing_longest_wait_seconds gauge
`
	for _, reason := range []Reason{AgentNotReady, AgentSilent, LauncherRuns, NoAgent, NodeDeleted,
		NodeNotReady, VMRuns} {
		want += `mooring_fencing_longest_wait_seconds{reason="` + string(reason) + `"} `
		want += map[bool]string{true: "60\n", false: "0\n"}[reason == VMRuns]
	}
	if err := testutil.CollectAndCompare(r.metrics, strings.NewReader(want),
		"mooring_fencing_longest_wait_seconds"); err != nil {
		t.Error(err)
	}
	f.State.Status.DeletedPods[0].Ended = true
	if err := r.writer.Status().Update(t.Context(), f.State); err != nil {
		t.Fatal(err)
	}
	reconciled()
	if got := <-recorder.Events; !strings.HasPrefix(got, "Normal PodReleased VMEnded: ") {
		t.Errorf("Event %q", got)
	}
	pod := &corev1.Pod{}
	if err := r.writer.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/a"}, pod.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if len(r.metrics.pods) != 0 || len(r.reported) != 0 {
		t.Errorf("the controller remembers %v, %v", r.metrics.pods, r.reported)
	}
}

// TestReleaseOfAnOlderPod: a decision is about the version of the pod that was read. An unbound pod
// may be bound since.
func TestReleaseOfAnOlderPod(t *testing.T) {
	pod := protectedPod()
	r, _ := newReconciler(t, pod)
	read := &corev1.Pod{}
	if err := r.cluster.Get(t.Context(), client.ObjectKeyFromObject(pod), read); err != nil {
		t.Fatal(err)
	}
	changed := read.DeepCopy()
	changed.Annotations = map[string]string{"a": "b"}
	if err := r.writer.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if err := Release(t.Context(), r.writer, read); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
}

// TestLivingPod: the controller leaves a pod that is not deleted.
func TestLivingPod(t *testing.T) {
	pod := protectedPod()
	pod.DeletionTimestamp, pod.Spec.NodeName = nil, ""
	r, recorder := newReconciler(t, pod)
	key := client.ObjectKeyFromObject(pod)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := r.writer.Get(t.Context(), key, got); err != nil || len(got.Finalizers) != 2 ||
		len(recorder.Events) > 0 {
		t.Errorf("%v, finalizers %v", err, got.Finalizers)
	}
}

// TestTrim: a decision about trimmed objects is that about whole ones.
func TestTrim(t *testing.T) {
	f := facts()
	f.Pod = protectedPod()
	f.Pod.Spec.Containers = []corev1.Container{{Name: "compute"}}
	f.Node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
	f.Node.Annotations = map[string]string{"a": "b"}
	pod, err := trimPod(f.Pod)
	if err != nil {
		t.Fatal(err)
	}
	node, err := trimNode(f.Node)
	if err != nil {
		t.Fatal(err)
	}
	trimmed := Facts{Pod: pod.(*corev1.Pod), Node: node.(*corev1.Node), State: f.State, Now: f.Now}
	if diff := cmp.Diff(Decide(f), Decide(trimmed)); diff != "" || !Waits(trimmed.Pod) ||
		serviceOf(trimmed.Node) != serviceOf(f.Node) {
		t.Errorf("-whole +trimmed:\n%s", diff)
	}
	if len(trimmed.Pod.Spec.Containers) > 0 || trimmed.Node.Annotations != nil {
		t.Error("the cache keeps whole objects")
	}
}

// TestEnqueued: a change of the node, or of its report, enqueues the waiting pods there alone.
func TestEnqueued(t *testing.T) {
	living, elsewhere := protectedPod(), protectedPod()
	living.Name, living.DeletionTimestamp = "living", nil
	elsewhere.Name, elsewhere.Spec.NodeName = "elsewhere", "n2"
	r, _ := newReconciler(t, protectedPod(), living, elsewhere)
	f := facts()
	f.State.Status.DeletedPods[0].Pod = v1alpha1.PodReport{Namespace: "ns", Name: "vm", UID: "u1"}
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "vm"}}}
	if diff := cmp.Diff(want, podsOf(r.cluster)(t.Context(), f.Node)); diff != "" {
		t.Errorf("by the node (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, reportedPods(t.Context(), f.State)); diff != "" {
		t.Errorf("by the report (-want +got):\n%s", diff)
	}
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}
	if got := podsOf(r.cluster)(t.Context(), other); len(got) > 0 {
		t.Errorf("by another node: %v", got)
	}
}
