package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// TestLargerTargetWithoutWebhooks makes the target pod larger than the source, as TestLargerTarget
// does. Without webhooks the controller does not see the rejected target pod and estimates its charge.
func TestLargerTargetWithoutWebhooks(t *testing.T) {
	c, _ := start(t)
	setKubeVirtVersion(t, c)
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	c.SetHard(t, ns, c.Used(t, ns))
	base := quotaOf(t, c, ns, kubevirttest.QuotaName).Spec.Hard
	source := c.Launchers(t, vmi)[0]
	c.Configure(t, `{"spec": {"configuration": {"additionalGuestMemoryOverheadRatio": "3"}}}`)
	awaitLarger(t, c, &source)

	m := c.MigrateUntil(t, vmi, kubevirtv1.MigrationPreparingTarget)
	m.Await(t, kubevirtv1.MigrationPreparingTarget)
	r := awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
	if noted, ok := r.Annotations[quota.TargetAnnotation]; ok {
		t.Fatalf("a webhook has seen the target: %s", noted)
	}
	target := quota.Charge(m.Target(t))["requests.memory"]
	if from := quota.Charge(&source)["requests.memory"]; target.Cmp(from) <= 0 {
		t.Errorf("the target is charged %s, and the source %s", &target, &from)
	}
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(base, r))
	eventually(t, "an Event about the estimate", func() error {
		return checkGrownByEstimate(t, c, m)
	})
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitHard(t, c, ns, kubevirttest.QuotaName, base)
	eventually(t, "the excess above the base to be reported",
		func() error { return checkOverrunReported(t, c, ns) })
}

// checkGrownByEstimate expects Events about a larger reservation, all by the estimate. The estimate equals the
// target's charge to the byte, so no correction follows.
func checkGrownByEstimate(t *testing.T, c *kubevirttest.Cluster, m *kubevirttest.Migration) error {
	t.Helper()
	all, object := &eventsv1.EventList{}, m.Get(t)
	if err := c.Client.List(t.Context(), all, client.InNamespace(object.Namespace)); err != nil {
		t.Fatal(err)
	}
	events := 0
	for _, e := range all.Items {
		if e.Regarding.UID != object.UID || e.Reason != quota.ReasonGrown {
			continue
		}
		if events++; !strings.Contains(e.Note, "probably needs requests.memory=") {
			t.Errorf("Event %s: want the estimate as the only cause of growth", e.Note)
		}
	}
	if events == 0 {
		return errors.New("no such Event")
	}
	return nil
}

// TestActualCharge runs all tests at once against one controller with mooring-shim.
func TestActualCharge(t *testing.T) {
	c, _ := startServing(t, "--shim-image=registry.test/mooring-shim:v1")
	setKubeVirtVersion(t, c)
	awaitWebhookCalled(t, c)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"mooring-shim is estimated":      testShimIsEstimated,
		"a VM with mooring-shim":         testShimDoesNotFit,
		"a quota that has opted out":     testOptedOut,
		"a share that leaves too little": testShareBelowUse,
		"a manager's limit below use":    testManagersLimitBelowUse,
		"a VM without limits":            testVMWithoutLimits,
	})
}

// testShimIsEstimated estimates launchers with mooring-shim, added by the webhook. A Guaranteed
// launcher gets a larger shim.
func testShimIsEstimated(t *testing.T, c *kubevirttest.Cluster) {
	asks := annotate(api.InjectSidecarKey, "true")
	for _, e := range []estimateCase{
		{"the VM asks", asks, limitsQuota(), "", nil},
		{"dedicated CPUs", combine(asks, dedicated), limitsQuota(), "", nil},
		{"beside a LimitRange", asks, limitsQuota(), "", limitRange()},
		{"no shim", plainVM, limitsQuota(), "", nil},
	} {
		in := e.input(t, c)
		in.Shim = true
		in.VMI = kubevirttest.NewVMI(in.Namespace.Name, "vm",
			kubevirttest.Size{Cores: 2, Memory: "1Gi"})
		e.change(in.VMI)
		if err := compare(t, c, in); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
	}
}

// testShimDoesNotFit uses a quota with space for a launcher, but not for one with mooring-shim.
func testShimDoesNotFit(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("requests.memory", "64Gi", "pods", "64"))
	c.RunningVMI(t, ns, "probe", small())
	awaitPods(t, c, ns, 1)
	c.SetHard(t, ns, times(c.Used(t, ns), 2))
	asking := newVM(ns, "asking", kubevirtv1.RunStrategyAlways)
	asking.Spec.Template.ObjectMeta.Annotations = map[string]string{api.InjectSidecarKey: "true"}
	wantRefusal(t, c.Client.Create(t.Context(), asking), "VirtualMachine asking",
		"requests.memory: requested")
	plain := newVM(ns, "plain", kubevirtv1.RunStrategyAlways)
	wantPass(t, c.Client.Create(t.Context(), plain))
	awaitVMRunning(t, c, plain)
}

// half is a maintenance share of 50 % of the limits.
const half = `{"limitsCpuPercent": 50, "limitsMemoryPercent": 50}`

func share(t *testing.T, c *kubevirttest.Cluster, ns, text string) error {
	t.Helper()
	patch := merge(fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`,
		quota.MaintenanceAnnotation, text))
	return c.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
		patch)
}

// testOptedOut gives VMs the whole of a quota with opt-out.
func testOptedOut(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	wantPass(t, share(t, c, ns, half))
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: kubevirttest.QuotaName,
			Annotations: map[string]string{quota.DefaultPrefix + quota.SkipName: "true"},
		},
		Spec: corev1.ResourceQuotaSpec{Hard: list("limits.memory", "3Gi", "limits.cpu", "3",
			"pods", "64")},
	})
	vm := newVM(ns, "most", kubevirtv1.RunStrategyAlways)
	wantPass(t, c.Client.Create(t.Context(), vm))
	awaitVMRunning(t, c, vm)
	kept := &corev1.Namespace{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: ns}, kept); err != nil {
		t.Fatal(err)
	}
	if said, ok := kept.Annotations[quota.DefaultPrefix+quota.VMAvailableName]; ok {
		t.Errorf("the VMs' share is %s", said)
	}
}

func testShareBelowUse(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("limits.memory", "64Gi", "limits.cpu", "4", "pods", "64"))
	c.RunningVMI(t, ns, "vm", small())
	awaitPods(t, c, ns, 1)
	wantRefusal(t, share(t, c, ns, half), "namespaces.guard.mooring.dev", "share of namespace "+ns,
		"ResourceQuota "+kubevirttest.QuotaName+": limits.cpu: 2 is less than the")
	wantPass(t, share(t, c, ns, `{"limitsCpuPercent": 49, "limitsMemoryPercent": 50}`))
}

func testManagersLimitBelowUse(t *testing.T, c *kubevirttest.Cluster) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.Namespace(t, nil)}}
	limit := func(memory string) error {
		value := fmt.Sprintf(`{"limit": {"requestsMemory": %q}}`, memory)
		return c.Client.Patch(t.Context(), ns.DeepCopy(),
			merge(fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`,
				quota.DefaultManagerAnnotation, value)))
	}
	wantPass(t, limit("4Gi"))
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: kubevirttest.QuotaName,
			Labels: map[string]string{quota.DefaultManagerLabel: "true"}},
		Spec: corev1.ResourceQuotaSpec{Hard: list("requests.memory", "4Gi", "pods", "64")},
	})
	c.RunningVMI(t, ns.Name, "vm", small())
	awaitPods(t, c, ns.Name, 1)
	wantRefusal(t, limit("1Gi"), "namespaces.guard.mooring.dev",
		"requests.memory: 1Gi is less than the", "in use")
	wantPass(t, limit("3Gi"))
}

// Where a quota requires limits, KubeVirt sets them to twice the request.
func testVMWithoutLimits(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("limits.memory", "2Gi", "limits.cpu", "4"))
	vm := newVM(ns, "bare", kubevirtv1.RunStrategyAlways)
	wantRefusal(t, c.Client.Create(t.Context(), vm.DeepCopy()), "VirtualMachine bare",
		"limits.memory: requested", "2 times the request")
	vm.Spec.Template.Spec.Domain.Resources.Limits = list("memory", "1Gi", "cpu", "2")
	wantPass(t, c.Client.Create(t.Context(), vm))
	awaitVMRunning(t, c, vm)
}
