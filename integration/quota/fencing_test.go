package quota

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/cli/fence"
	"github.com/mooring-vm/mooring/cli/uninstall"
	"github.com/mooring-vm/mooring/fencing"
	"github.com/mooring-vm/mooring/hack/kube"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestFencing deletes launchers whose VMs run. The test acts as kubelet and as the node's agent, by
// the objects that they write.
func TestFencing(t *testing.T) {
	f := startFencing(t)
	for _, sub := range []struct {
		name string
		run  func(*testing.T, *fencingTest)
	}{
		{"force delete", testForceDelete},
		{"never bound", testNeverBound},
		{"StatefulSet and taint", testStatefulSet},
		{"Node deleted", testNodeDeleted},
		{"namespace deleted", testNamespaceDeleted},
		{"rights", testReleaseRights},
		{"webhook down", testFencingWebhookDown},
		{"uninstall", testFencingUninstalled}, // last: it removes the webhook
	} {
		t.Run(sub.name, func(t *testing.T) { sub.run(t, f) })
	}
}

// testForceDelete: KubeVirt starts no other launcher until the agent confirms the end of the VM.
func testForceDelete(t *testing.T, f *fencingTest) {
	ns := f.namespace(t)
	vm := newVM(ns, "db", virtv1.RunStrategyAlways)
	if err := f.c.Client.Create(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	awaitVMRunning(t, f.c, vm)
	pod := onlyLauncher(t, f.c, vm)
	checkProtected(t, &pod)
	alone := func() {
		t.Helper()
		all := &corev1.PodList{}
		if err := f.c.Client.List(t.Context(), all, client.InNamespace(ns),
			client.MatchingLabels{virtv1.AppLabel: "virt-launcher"}); err != nil {
			t.Fatal(err)
		}
		if len(all.Items) != 1 || all.Items[0].UID != pod.UID {
			t.Fatalf("%d launchers while the VM may run", len(all.Items))
		}
	}
	f.forceDelete(t, &pod)
	f.awaitEvent(t, &pod, fencing.ReasonWaits, fencing.LauncherRuns)
	alone()
	f.endContainers(t, &pod)
	f.awaitEvent(t, &pod, fencing.ReasonWaits, fencing.NoAgent)
	alone()
	f.agentReports(t, &pod, false)
	f.awaitEvent(t, &pod, fencing.ReasonWaits, fencing.VMRuns)
	f.awaitMetric(t, `mooring_fencing_waiting_pods{reason="VMRuns"} 1`)
	alone()
	f.agentReports(t, &pod, true)
	f.awaitGone(t, &pod)
	f.awaitEvent(t, &pod, fencing.ReasonReleased, fencing.VMEnded)
	f.awaitMetric(t, `mooring_fencing_waiting_pods{reason="VMRuns"} 0`)
	eventually(t, "another launcher", func() error {
		pods := f.c.Launchers(t, awaitInstance(t, f.c, vm))
		if len(pods) != 1 || pods[0].UID == pod.UID {
			return fmt.Errorf("%d launchers", len(pods))
		}
		return nil
	})
	f.stopVM(t, vm)
}

func testNeverBound(t *testing.T, f *fencingTest) {
	pod := launcherOn(f.namespace(t), "")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test.example/wait"}}
	f.create(t, pod)
	checkProtected(t, pod)
	f.forceDelete(t, pod)
	f.awaitGone(t, pod)
	f.awaitEvent(t, pod, fencing.ReasonReleased, fencing.NeverBound)
}

// testStatefulSet: the name is free only after the taint of the dead node.
func testStatefulSet(t *testing.T, f *fencingTest) {
	node := f.deadNode(t)
	pod := launcherOn(f.namespace(t), node.Name)
	set := statefulSet(pod)
	if err := f.c.Client.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	pod.Name = set.Name + "-0"
	f.awaitRunning(t, pod)
	checkProtected(t, pod)
	f.forceDelete(t, pod)
	f.awaitEvent(t, pod, fencing.ReasonWaits, fencing.NodeNotReady)
	old := pod.DeepCopy()
	f.get(t, pod)
	if pod.UID != old.UID {
		t.Fatal("the StatefulSet has replaced a pod whose VM may run")
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService,
		Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	if err := f.c.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	f.awaitEvent(t, old, fencing.ReasonReleased, fencing.NodeOutOfService)
	eventually(t, "another pod of the StatefulSet", func() error {
		if err := f.c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.UID == old.UID {
			return fmt.Errorf("the old pod")
		}
		return nil
	})
	if err := f.c.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// testNodeDeleted: a deleted Node proves nothing. kube-controller-manager deletes its pod and fails
// it. `mooring fence` releases the pod.
func testNodeDeleted(t *testing.T, f *fencingTest) {
	node := f.deadNode(t)
	pod := launcherOn(f.namespace(t), node.Name)
	f.create(t, pod)
	f.awaitRunning(t, pod)
	if err := f.c.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod garbage collection", func() error {
		f.get(t, pod)
		if pod.DeletionTimestamp == nil || pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("phase %s, deleted at %v", pod.Status.Phase, pod.DeletionTimestamp)
		}
		return nil
	})
	f.awaitEvent(t, pod, fencing.ReasonWaits, fencing.NodeDeleted)
	c := &fence.Cluster{Client: f.all, Now: time.Now, Print: func(line string) { t.Log(line) }}
	if err := c.Release(t.Context(), node.Name, false); err != nil {
		t.Fatal(err)
	}
	f.awaitGone(t, pod)
	f.awaitEvent(t, pod, fencing.ReasonReleased, fencing.NodeFenced)
}

// testNamespaceDeleted: the namespace waits for the VM, and then ends.
func testNamespaceDeleted(t *testing.T, f *fencingTest) {
	ns := f.newNamespace(t)
	pod := launcherOn(ns.Name, f.deadNode(t).Name)
	f.create(t, pod)
	f.awaitRunning(t, pod)
	if err := f.c.Client.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	f.awaitMetric(t, `mooring_fencing_waiting_pods{reason="NodeNotReady"} 1`)
	f.get(t, pod)
	f.endContainers(t, pod)
	f.agentReports(t, pod, true)
	f.awaitGone(t, pod)
	f.awaitNamespaceEnd(t, ns)
}

// testReleaseRights patches pods as the controller's account, and as an administrator.
func testReleaseRights(t *testing.T, f *fencingTest) {
	pod := launcherOn(f.namespace(t), f.deadNode(t).Name)
	f.create(t, pod)
	f.awaitRunning(t, pod)
	controller := asController(t, f.c)
	const release = `{"metadata": {"finalizers": null}}`
	for what, tt := range map[string]struct {
		by          client.Client
		patch, want string
	}{
		"a living pod":     {controller, release, "only deleted pods"},
		"another change":   {controller, `{"metadata": {"labels": {"a": "b"}}}`, "controller"},
		"no label, by all": {f.c.Client, `{"metadata": {"labels": {"fencing.mooring.dev": null}}}`, "stays while"},
		"the owner":        {f.c.Client, release, ""},
	} {
		eventually(t, what, func() error {
			return checkPatch(t, tt.by, pod, "", tt.patch, tt.want)
		})
	}
	f.forceDelete(t, pod)
	more := `{"metadata": {"finalizers": null, "annotations": {"a": "b"}}}`
	if err := checkPatch(t, controller, pod, "", more, "own finalizer alone"); err != nil {
		t.Error(err)
	}
	if err := checkPatch(t, controller, pod, "", release, ""); err != nil {
		t.Error(err)
	}
	f.endContainers(t, pod)
	f.agentReports(t, pod, true)
	f.awaitGone(t, pod)
}

// testFencingWebhookDown: without a controller no launcher starts unprotected. Other pods and other
// namespaces go on, and a deleted pod waits for the next controller.
func testFencingWebhookDown(t *testing.T, f *fencingTest) {
	ns, other := f.namespace(t), f.c.Namespace(t, nil)
	waiting := launcherOn(ns, f.deadNode(t).Name)
	f.create(t, waiting)
	f.awaitRunning(t, waiting)
	f.program.stop(t)
	err := f.c.Client.Create(t.Context(), launcherOn(ns, ""), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "fencing.mooring.dev") {
		t.Errorf("a launcher without a webhook: %v", err)
	}
	plain := launcherOn(ns, "")
	plain.Annotations = nil
	for what, pod := range map[string]*corev1.Pod{"a plain pod": plain,
		"another namespace": launcherOn(other, "")} {
		if err := f.c.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.forceDelete(t, waiting)
	f.endContainers(t, waiting)
	f.agentReports(t, waiting, true)
	f.get(t, waiting)
	f.program.start(t)
	f.awaitGone(t, waiting)
}

// fencingTest is a cluster with fencing.
type fencingTest struct {
	c       *kubevirttest.Cluster
	program *program
	states  client.Client
	all     client.Client // with the types of `mooring fence`
}

func startFencing(t *testing.T) *fencingTest {
	t.Helper()
	c := kubevirttest.Start(t)
	withControllers(t, c, "statefulset-controller", "pod-garbage-collector-controller")
	p := installServing(t, c)
	for _, o := range manifests(t, "fencing.yaml", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if o.GetKind() == "MutatingWebhookConfiguration" {
			if err := kube.ServeAt("https://"+p.webhooks, o); err != nil {
				t.Fatal(err)
			}
		} else {
			t.Cleanup(func() { remove(t, c, o) })
		}
		apply(t, c, o)
	}
	p.args = append(p.args, "--fence-pods")
	p.start(t)
	eventually(t, "the API server to get the new bundle", func() error { return trusted(t, c) })
	all, err := uninstall.NewClient(c.Plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &fencingTest{c: c, program: p, states: statesClient(t, c), all: all}
}

// withControllers runs more controllers of kube-controller-manager until t ends.
func withControllers(t *testing.T, c *kubevirttest.Cluster, more ...string) {
	t.Helper()
	restart := func(ctx context.Context, names []string) {
		t.Helper()
		if err := c.Controllers.Stop(); err != nil {
			t.Fatal(err)
		}
		var err error
		if c.Controllers, err = c.Plane.StartControllers(ctx, names...); err != nil {
			t.Fatal(err)
		}
	}
	restart(t.Context(), slices.Concat(kubevirttest.Controllers(), more))
	t.Cleanup(func() {
		restart(context.WithoutCancel(t.Context()), kubevirttest.Controllers())
	})
}

func checkProtected(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if !slices.Contains(pod.Finalizers, api.PodFinalizer) || pod.Labels[api.FencingLabel] != "true" {
		t.Fatalf("finalizers %v, labels %v", pod.Finalizers, pod.Labels)
	}
}

// awaitEvent returns when the controller has written an Event with a reason on a pod.
func (f *fencingTest) awaitEvent(t *testing.T, pod *corev1.Pod, event string, why fencing.Reason) {
	t.Helper()
	eventually(t, fmt.Sprintf("the Event %s of %s", event, why), func() error {
		all := &eventsv1.EventList{}
		if err := f.c.Client.List(t.Context(), all, client.InNamespace(pod.Namespace)); err != nil {
			return err
		}
		var notes []string
		for i := range all.Items {
			e := &all.Items[i]
			if e.Regarding.UID != pod.UID {
				continue
			}
			notes = append(notes, e.Reason+" "+e.Note)
			if e.Reason == event && strings.HasPrefix(e.Note, string(why)+": ") {
				return nil
			}
		}
		return fmt.Errorf("Events %q", notes)
	})
}

func (f *fencingTest) awaitMetric(t *testing.T, line string) {
	t.Helper()
	eventually(t, line, func() error {
		text, err := f.program.get(t.Context(), "/metrics")
		if err != nil || strings.Contains(text, line+"\n") {
			return err
		}
		return fmt.Errorf("metrics without it")
	})
}

func (f *fencingTest) awaitGone(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "the end of pod "+pod.Name, func() error {
		got := &corev1.Pod{}
		err := f.c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), got)
		if apierrors.IsNotFound(err) || err == nil && got.UID != pod.UID {
			return nil
		}
		return fmt.Errorf("finalizers %v: %w", got.Finalizers, err)
	})
}

// forceDelete deletes a pod as `kubectl delete --force` does.
func (f *fencingTest) forceDelete(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := f.c.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0),
		client.Preconditions{UID: &pod.UID}); err != nil {
		t.Fatal(err)
	}
}

// stopVM stops a VM and confirms the end of its launchers.
func (f *fencingTest) stopVM(t *testing.T, vm *virtv1.VirtualMachine) {
	t.Helper()
	if err := f.c.Client.Delete(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of all launchers", func() error {
		all := &corev1.PodList{}
		if err := f.c.Client.List(t.Context(), all, client.InNamespace(vm.Namespace),
			client.MatchingLabels{virtv1.AppLabel: "virt-launcher"}); err != nil {
			return err
		}
		for i := range all.Items {
			if pod := &all.Items[i]; fencing.Waits(pod) {
				f.endContainers(t, pod)
				f.agentReports(t, pod, true)
			}
		}
		if len(all.Items) > 0 {
			return fmt.Errorf("%d launchers", len(all.Items))
		}
		return nil
	})
}

func (f *fencingTest) get(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := f.c.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
}

func (f *fencingTest) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := f.c.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// namespace returns a namespace whose launchers get the finalizer.
func (f *fencingTest) namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.c.Namespace(t, nil)}}
	patch := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"`+api.FencingLabel+`": "true"}}}`))
	if err := f.c.Client.Patch(t.Context(), ns, patch); err != nil {
		t.Fatal(err)
	}
	f.awaitWebhook(t, ns.Name)
	return ns.Name
}

// awaitWebhook returns when the API server calls the webhook for pods of a namespace.
func (f *fencingTest) awaitWebhook(t *testing.T, ns string) {
	t.Helper()
	eventually(t, "the webhook in namespace "+ns, func() error {
		pod := launcherOn(ns, "")
		if err := f.c.Client.Create(t.Context(), pod, client.DryRunAll); err != nil {
			return err
		}
		if len(pod.Finalizers) == 0 {
			return fmt.Errorf("a pod without the finalizer")
		}
		return nil
	})
}
