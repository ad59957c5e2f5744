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

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
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
		"shrinks": {was: plain("big", "99Gi"), is: plain("big", "98Gi"), user: eve},
		"of an earlier size that kubelet refused": {was: infeasible("big", "99Gi", "1Gi"),
			is: infeasible("big", "10Gi", "1Gi"), user: eve, why: refused},
		"back to its size": {was: infeasible("big", "99Gi", "1Gi"),
			is: infeasible("big", "1Gi", "1Gi"), user: eve},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject())
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

// infeasible returns a pod that has asked for more memory than its node has.
func infeasible(name, wants, has string) *corev1.Pod {
	pod := plain(name, wants)
	pod.Spec.Containers[0].Name = "main"
	pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
	actual := list("cpu", "1", "memory", has)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
		AllocatedResources: actual,
		Resources:          &corev1.ResourceRequirements{Requests: actual, Limits: actual}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending,
		Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
	return pod
}

// TestAttachmentPods creates pods with hot-plugged disks. The reservation of a VM covers that of
// its migration's target, and no other.
func TestAttachmentPods(t *testing.T) {
	refused := []string{"limits.memory: requested 9Gi"}
	for name, test := range map[string]struct {
		migration string // whose target the launcher is; empty: none
		phase     kubevirtv1.VirtualMachineInstanceMigrationPhase
		source    bool // the launcher is the source of the reservation
		user      string
		why       []string
	}{
		"of the target": {migration: "m-db", user: virtController},
		"of the target of another migration of the VM": {migration: "m-other",
			user: virtController},
		"of the target of another VM's migration": {migration: "m-web", user: virtController},
		"by another user":                         {migration: "m-db", user: eve, why: refused},
		"of the source":                           {user: virtController, source: true, why: refused},
		"of a source that was a target once": {migration: "m-old", source: true,
			phase: kubevirtv1.MigrationSucceeded, user: virtController, why: refused},
		"of a launcher after its migration": {migration: "m-db",
			phase: kubevirtv1.MigrationSucceeded, user: virtController, why: refused},
		"of a deleted migration": {migration: "m-gone", user: virtController, why: refused},
	} {
		t.Run(name, func(t *testing.T) {
			pod, ledger := launcher("db", "2", "4Gi"), reservation()
			pod.Labels[kubevirtv1.CreatedByLabel] = "vmi-db"
			if test.migration != "" {
				pod.Labels[kubevirtv1.MigrationJobLabel] = test.migration
			}
			if test.source {
				ledger.Spec.Source = &v1alpha1.Reference{Name: pod.Name, UID: pod.UID}
			}
			objects := []client.Object{namespace(), raised(), kubevirtObject(), pod, ledger}
			if test.migration == "m-old" { // KubeVirt keeps its source pod
				old := storedPod()
				old.Name = "m-old"
				objects = append(objects, old)
			}
			if test.migration != "m-gone" && test.migration != "" {
				m := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: inVMs(test.migration)}
				m.Spec.VMIName, m.Status.Phase = "db", test.phase
				objects = append(objects, m)
			}
			w := newWorld(t, objects...)
			r := ask(t, admissionv1.Create, nil, attachmentOf(pod))
			r.UserInfo.Username = test.user
			want(t, guard.NewPod(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestUnreadableQuota: the base of a quota is unknown, so each pod could take room above it.
func TestUnreadableQuota(t *testing.T) {
	bestEffort := plain("empty", "1Gi")
	bestEffort.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	broken := edit(raised(), annotate(quota.BaseAnnotation, "{"))
	why := []string{"exceeded quota", "ResourceQuota default", quota.BaseAnnotation, "Try again"}
	for name, test := range map[string]struct {
		change  func(*corev1.ResourceQuota)
		handler func(guard.Config) admission.Handler
		pod     *corev1.Pod
		why     []string
	}{
		"a pod":      {nil, guard.NewPod, plain("small", "1"), why},
		"a launcher": {nil, guard.NewLauncher, launcher("web", "1", "1"), why},
		"out of scope": {func(q *corev1.ResourceQuota) {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort}
		}, guard.NewPod, bestEffort, nil},
		"opted out": {optOut, guard.NewPod, plain("small", "1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := broken
			if test.change != nil {
				q = edit(broken, test.change)
			}
			w := newWorld(t, namespace(), q, reservation(), kubevirtObject())
			want(t, test.handler(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Create, nil, test.pod)), test.why...)
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
