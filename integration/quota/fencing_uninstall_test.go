package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/cli/uninstall"
	"github.com/mooring-vm/mooring/quota"
)

// testFencingUninstalled ends the controller, and then does the work of helm uninstall's hook while
// pods have the finalizer. No pod and no namespace stays, and new launchers start without it.
func testFencingUninstalled(t *testing.T, f *fencingTest) {
	ns := f.namespace(t)
	running := func(namespace string) *corev1.Pod {
		t.Helper()
		pod := launcherOn(namespace, f.deadNode(t).Name)
		f.create(t, pod)
		f.awaitRunning(t, pod)
		checkProtected(t, pod)
		return pod
	}
	living, waiting, late := running(ns), running(ns), running(ns)
	doomed := f.newNamespace(t)
	inDoomed := running(doomed.Name)
	f.forceDelete(t, waiting)
	if err := f.c.Client.Delete(t.Context(), doomed); err != nil {
		t.Fatal(err)
	}
	f.awaitMetric(t, `mooring_fencing_waiting_pods{reason="NodeNotReady"} 2`)
	f.program.stop(t)
	f.forceDelete(t, late)
	err := f.c.Client.Create(t.Context(), launcherOn(ns, ""), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "fencing.mooring.dev") {
		t.Errorf("a launcher without a webhook: %v", err)
	}
	for _, pod := range []*corev1.Pod{waiting, late, inDoomed} {
		f.get(t, pod)
	}

	c := uninstall.Cluster{Client: f.all, Namespace: system,
		Quota: quota.Options{Prefix: quota.DefaultPrefix}, Force: true, Patience: time.Minute,
		Now: time.Now, Report: uninstall.Report{Print: func(line string) { t.Log(line) }}}
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{waiting, late, inDoomed} {
		f.awaitGone(t, pod)
	}
	f.awaitNamespaceEnd(t, doomed)
	f.get(t, living)
	if living.DeletionTimestamp != nil || slices.Contains(living.Finalizers, api.PodFinalizer) {
		t.Errorf("living pod: deleted at %v, finalizers %v", living.DeletionTimestamp,
			living.Finalizers)
	}
	f.forceDelete(t, living)
	f.awaitGone(t, living)
	next := launcherOn(ns, "")
	next.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "test.example/wait"}}
	eventually(t, "a launcher without the webhook", func() error {
		return f.c.Client.Create(t.Context(), next)
	})
	if len(next.Finalizers) > 0 {
		t.Errorf("finalizers %v of a launcher after the uninstall", next.Finalizers)
	}
}

// newNamespace returns a namespace whose launchers get the finalizer. The test deletes it.
func (f *fencingTest) newNamespace(t *testing.T) *corev1.Namespace {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fenced-",
		Labels: map[string]string{api.FencingLabel: "true"}}}
	if err := f.c.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	f.awaitWebhook(t, ns.Name)
	return ns
}

func (f *fencingTest) awaitNamespaceEnd(t *testing.T, ns *corev1.Namespace) {
	t.Helper()
	eventually(t, "the end of the namespace", func() error {
		err := f.c.Client.Get(t.Context(), client.ObjectKeyFromObject(ns), ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("phase %s: %w", ns.Status.Phase, err)
	})
}
