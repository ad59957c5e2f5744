package guard_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// plain returns a pod of no VM.
func plain(name, memory string) *corev1.Pod {
	pod := launcher(name, "1", memory)
	pod.Name, pod.UID, pod.Labels, pod.OwnerReferences = name, types.UID(name), nil, nil
	return pod
}

// attachmentOf returns a pod with hot-plugged disks of a launcher.
func attachmentOf(of *corev1.Pod) *corev1.Pod {
	pod := plain("hp-"+of.Name, "9Gi")
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "hotplug-disk"}
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(of, corev1.SchemeGroupVersion.WithKind("Pod"))}
	return pod
}

func TestPodsBesideReservations(t *testing.T) {
	target, source := launcher("db", "2", "4Gi"), launcher("web", "2", "4Gi")
	target.Labels[kubevirtv1.MigrationJobLabel] = "m-db"
	refused := []string{"exceeded quota: pod big does not fit", "limits.memory: requested 9Gi, free",
		"Wait until the live migrations"}
	for name, test := range map[string]struct {
		was, is *corev1.Pod
		user    string
		groups  []string
		why     []string
	}{
		"fits":                      {is: plain("small", "8Gi"), user: eve},
		"takes room above the base": {is: plain("big", "9Gi"), user: eve, why: refused},
		"pod of a Deployment": {is: plain("big", "9Gi"),
			user:   "system:serviceaccount:kube-system:replicaset-controller",
			groups: []string{guard.KubeSystem}, why: refused},
		"of the controller":     {is: plain("big", "9Gi"), user: own},
		"grows within the base": {was: plain("big", "1Gi"), is: plain("big", "9Gi"), user: eve},
		"grows above the base": {was: plain("big", "1Gi"), is: plain("big", "10Gi"), user: eve,
			why: refused},
		"shrinks":                    {was: plain("big", "99Gi"), is: plain("big", "98Gi"), user: eve},
		"attaches disks to a target": {is: attachmentOf(target), user: virtController},
		"attaches disks to a VM": {is: attachmentOf(source), user: virtController,
			why: []string{"limits.memory: requested 9Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject(), target, source)
			operation := admissionv1.Create
			var was client.Object
			if test.was != nil {
				operation, was = admissionv1.Update, test.was
			}
			r := ask(t, operation, was, test.is)
			r.UserInfo.Username, r.UserInfo.Groups = test.user, test.groups
			want(t, guard.NewPod(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// Without an answer of the API server the room above the base stays reserved.
func TestUncheckedPodIsRefused(t *testing.T) {
	w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject())
	w.breaks = errors.New("no answer")
	want(t, guard.NewPod(w.guard).Handle(t.Context(), ask(t, admissionv1.Create, nil,
		plain("a", "1Gi"))), "could not check pod a", "no answer", "Try again")
}

// TestManyPodsAtOnce admits ten pods before the API server has stored any of them. Four fit.
func TestManyPodsAtOnce(t *testing.T) {
	w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject())
	now := time.Now()
	w.guard.Now = func() time.Time { return now }
	handler := guard.NewPod(w.guard)
	create := func(name string, dryRun bool) admission.Response {
		r := ask(t, admissionv1.Create, nil, plain(name, "2Gi"))
		r.DryRun = &dryRun
		return handler.Handle(t.Context(), r)
	}
	want(t, create("dry", true))
	var all sync.WaitGroup
	var admitted atomic.Int32
	for i := range 10 {
		all.Go(func() {
			if create(fmt.Sprint("pod", i), false).Allowed {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if n := admitted.Load(); n != 4 {
		t.Errorf("admitted %d pods, want 4", n)
	}
	now = now.Add(31 * time.Second) // none of them was stored
	want(t, create("late", false))
}

// A pod claims nothing more when the API server has stored it. The quota charges it then.
func TestClaimEndsWithTheStoredPod(t *testing.T) {
	w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject())
	handler := guard.NewPod(w.guard)
	first := plain("first", "5Gi")
	want(t, handler.Handle(t.Context(), ask(t, admissionv1.Create, nil, first)))
	next := ask(t, admissionv1.Create, nil, plain("next", "5Gi"))
	want(t, handler.Handle(t.Context(), next), "claimed by 1")
	if err := w.client.Create(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	want(t, handler.Handle(t.Context(), next))
}
