package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	hackkubevirt "github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/controller"
)

// startGuarded is startServing for a KubeVirt with a known version. It returns when the API server
// calls the guards.
func startGuarded(t *testing.T) (*kubevirttest.Cluster, *program) {
	t.Helper()
	c, p := startServing(t)
	setKubeVirtVersion(t, c)
	awaitGuards(t, c)
	return c, p
}

// awaitGuards returns when the API server calls the guards.
func awaitGuards(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = c.Namespace(t, nil)
	rubbish := `{"metadata": {"annotations": {"` + quota.MaintenanceAnnotation + `": "rubbish"}}}`
	eventually(t, "the API server to call the guards", func() error {
		err := c.Client.Patch(t.Context(), ns,
			client.RawPatch(types.MergePatchType, []byte(rubbish)), client.DryRunAll)
		return checkRefusal(err, "namespaces.guard.mooring.dev", quota.MaintenanceAnnotation)
	})
}

// setKubeVirtVersion sets the version in KubeVirt's status, in place of virt-operator.
func setKubeVirtVersion(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	object := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: hackkubevirt.Namespace,
		Name: hackkubevirt.Name}}
	version := client.RawPatch(types.MergePatchType,
		[]byte(`{"status": {"observedKubeVirtVersion": "v1.7.0"}}`))
	if err := c.Client.Status().Patch(t.Context(), object, version); err != nil {
		t.Fatal(err)
	}
}

// checkRefusal returns nil if err is a guard's refusal with these parts.
func checkRefusal(err error, parts ...string) error {
	if err == nil {
		return errors.New("it passed")
	}
	if !apierrors.IsForbidden(err) {
		return fmt.Errorf("want a refusal: %w", err)
	}
	return checkParts(err, parts...)
}

// checkParts checks that the error text contains all parts.
func checkParts(err error, parts ...string) error {
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			return fmt.Errorf("%w: want %q in it", err, part)
		}
	}
	return nil
}

func wantRefusal(t *testing.T, err error, parts ...string) {
	t.Helper()
	if wrong := checkRefusal(err, parts...); wrong != nil {
		t.Error(wrong)
	}
}

func wantPass(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("want it to pass: %v", err)
	}
}

// TestGuardedQuotas runs all tests at once against one controller.
func TestGuardedQuotas(t *testing.T) {
	c, _ := startGuarded(t)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"edits":          testEditsWhileReserved,
		"a manager":      testManagerWhileReserved,
		"a namespace":    testNamespaceEndsWhileReserved,
		"below use":      testLimitBelowUse,
		"over the quota": testVMsOverQuota,
		"two launchers":  testSpaceForOneVM,
		"instance types": testInstanceTypeOverQuota,
	})
}

// The guard refuses edits of a raised quota until the migration ends. The controller's own writes
// must pass, or the migration could not end.
func testEditsWhileReserved(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	q := quotaOf(t, c, ns, kubevirttest.QuotaName)
	names := []string{"resourcequotas.guard.mooring.dev", m.Get(t).Name + " of VM vm"}
	wantRefusal(t, c.Client.Delete(t.Context(), q.DeepCopy()), names...)
	wantRefusal(t, c.Client.Patch(t.Context(), q.DeepCopy(),
		merge(`{"spec": {"hard": {"pods": "5"}}}`)), names...)
	// an admission policy, if present, decides about edits of the base annotation
	base := merge(`{"metadata": {"annotations": {"` + quota.BaseAnnotation + `": "{}"}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), q.DeepCopy(), base), quota.BaseAnnotation)
	wantPass(t, c.Client.Patch(t.Context(), q.DeepCopy(),
		merge(`{"metadata": {"labels": {"a": "b"}}}`)))

	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	q = quotaOf(t, c, ns, kubevirttest.QuotaName)
	wantPass(t, c.Client.Patch(t.Context(), q.DeepCopy(),
		merge(`{"spec": {"hard": {"pods": "5"}}}`)))
	wantPass(t, c.Client.Delete(t.Context(), q))
}

func merge(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

// A manager of quotas may write the base during a reservation, and no other value.
func testManagerWhileReserved(t *testing.T, c *kubevirttest.Cluster) {
	ns := &corev1.Namespace{}
	ns.Name = c.Namespace(t, nil)
	annotation := func(value string) client.Patch {
		return merge(fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`,
			quota.DefaultManagerAnnotation, value))
	}
	base := `"{\"limit\": {\"requestsMemory\": \"2Gi\", \"pods\": \"1\"}}"`
	wantPass(t, c.Client.Patch(t.Context(), ns.DeepCopy(), annotation(base)))
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: kubevirttest.QuotaName,
			Labels: map[string]string{quota.DefaultManagerLabel: "true"}},
		Spec: corev1.ResourceQuotaSpec{Hard: list("requests.memory", "2Gi", "pods", "1")},
	})
	m, r := charged(t, c, ns.Name)
	raised := plus(list("requests.memory", "2Gi", "pods", "1"), r)
	awaitHard(t, c, ns.Name, kubevirttest.QuotaName, raised)
	names := []string{"namespaces.guard.mooring.dev", m.Get(t).Name + " of VM vm"}
	wantRefusal(t, c.Client.Patch(t.Context(), ns.DeepCopy(),
		annotation(`"{\"limit\": {\"pods\": \"7\"}}"`)), names...)
	wantRefusal(t, c.Client.Patch(t.Context(), ns.DeepCopy(), annotation("null")), names...)
	share := merge(`{"metadata": {"annotations": {"` + quota.MaintenanceAnnotation +
		`": "{\"limitsCpuPercent\": 5}"}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), ns.DeepCopy(), share), names...)
	q := quotaOf(t, c, ns.Name, kubevirttest.QuotaName)
	wantPass(t, c.Client.Patch(t.Context(), q,
		merge(`{"spec": {"hard": {"requests.memory": "2Gi", "pods": "1"}}}`)))
	awaitHard(t, c, ns.Name, kubevirttest.QuotaName, raised)
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitClean(t, c, ns.Name, kubevirttest.QuotaName, list("requests.memory", "2Gi", "pods", "1"))
}

// Deleting a namespace with a reservation must succeed.
func testNamespaceEndsWhileReserved(t *testing.T, c *kubevirttest.Cluster) {
	ns := makeTemporaryNamespace(t, c)
	charged(t, c, ns.Name)
	deleteNamespace(t, c, ns)
}

func testLimitBelowUse(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	c.RunningVMI(t, ns, "vm", small())
	awaitPods(t, c, ns, 1)
	q := quotaOf(t, c, ns, kubevirttest.QuotaName)
	wantRefusal(t, c.Client.Patch(t.Context(), q.DeepCopy(),
		merge(`{"spec": {"hard": {"requests.memory": "1Gi"}}}`)),
		"requests.memory: 1Gi is less than the", "in use")
	wantPass(t, c.Client.Patch(t.Context(), q.DeepCopy(),
		merge(`{"spec": {"hard": {"requests.memory": "1900Mi"}}}`)))
}

// TestGuardsThatAreAway stops the controller. Requests must pass without it.
func TestGuardsThatAreAway(t *testing.T) {
	c, p := startGuarded(t)
	ns := c.Namespace(t, full())
	m, _ := charged(t, c, ns)
	q := quotaOf(t, c, ns, kubevirttest.QuotaName)
	edit := merge(
		`{"spec": {"hard": {"requests.memory": "64Gi", "requests.cpu": "64", "pods": "64"}}}`)
	wantRefusal(t, c.Client.Patch(t.Context(), q.DeepCopy(), edit),
		"resourcequotas.guard.mooring.dev")
	wantRefusal(t, c.Client.Create(t.Context(), newVM(ns, "second", kubevirtv1.RunStrategyAlways)),
		"virtualmachines.guard.mooring.dev")
	p.stop(t)
	wantPass(t, c.Client.Patch(t.Context(), q.DeepCopy(), edit))
	second := newVM(ns, "second", kubevirtv1.RunStrategyAlways)
	wantPass(t, c.Client.Create(t.Context(), second))
	awaitVMRunning(t, c, second)
	for _, share := range []string{`"rubbish"`, "null"} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
		wantPass(t, c.Client.Patch(t.Context(), namespace,
			merge(`{"metadata": {"annotations": {"`+quota.MaintenanceAnnotation+`": `+share+`}}}`)))
	}
	p.start(t)
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	eventually(t, "no reservation", func() error {
		if left := reservations(t, c, ns); len(left) > 0 {
			return fmt.Errorf("reservations %+v", left)
		}
		return nil
	})
}

// TestLargerTarget changes KubeVirt's settings after the source pod was made. The quota rejects the
// larger target pod, so the reservation must grow by the guard's observation.
func TestLargerTarget(t *testing.T) {
	c, _ := startGuarded(t)
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
	target := quota.Charge(m.Target(t))["requests.memory"]
	if from := quota.Charge(&source)["requests.memory"]; target.Cmp(from) <= 0 {
		t.Errorf("the target is charged %s, and the source %s", &target, &from)
	}
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(base, r))
	awaitEvents(t, c, m.Get(t), quota.ReasonGrown)
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
	awaitHard(t, c, ns, kubevirttest.QuotaName, base)
	eventually(t, "the excess above the base to be reported",
		func() error { return checkOverrunReported(t, c, ns) })
}

func checkOverrunReported(t *testing.T, c *kubevirttest.Cluster, ns string) error {
	t.Helper()
	events := &eventsv1.EventList{}
	if err := c.Client.List(t.Context(), events, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Reason == controller.ReasonOverrun && e.Regarding.Name == kubevirttest.QuotaName {
			return nil
		}
	}
	return errors.New("no Event reports it")
}

// awaitLarger returns when virt-controller makes launchers with a larger memory request.
func awaitLarger(t *testing.T, c *kubevirttest.Cluster, than *corev1.Pod) {
	t.Helper()
	ns, n := c.Namespace(t, nil), 0
	eventually(t, "KubeVirt to apply its settings", func() error {
		n++
		vmi := c.VMI(t, ns, fmt.Sprint("vm-", n), small())
		had, has := quota.Charge(than)["requests.memory"],
			quota.Charge(launcherOf(t, c, vmi))["requests.memory"]
		if has.Cmp(had) <= 0 {
			return fmt.Errorf("a launcher requests %s", &has)
		}
		return nil
	})
}
