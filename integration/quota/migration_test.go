package quota

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

func small() kubevirttest.Size { return kubevirttest.Size{Cores: 2, Memory: "1Gi"} }

// full is a quota with space for exactly one launcher of a small VM.
func full() corev1.ResourceList {
	return list("requests.memory", "2Gi", "requests.cpu", "300m", "pods", "1")
}

// TestMigrations runs all tests at once against one controller.
func TestMigrations(t *testing.T) {
	c, p := start(t)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"succeeds":              testSucceeds,
		"fails":                 testFails,
		"is aborted":            testIsAborted,
		"its VM is deleted":     testVMDeleted,
		"an administrator":      testAdministratorEdits,
		"a manager of quotas":   testManagerResets,
		"several quotas":        testSeveralQuotas,
		"a quota is made again": testQuotaMadeAgain,
		"a long name":           testLongName,
		"three at once":         testThreeAtOnce,
		"a LimitRange":          testLimitRange,
		"resized in place":      testResizedInPlace,
		"a drain":               testDrain,
		"quota status":          testStatus,
		"aborted in each phase": testAbortedInEachPhase,
		"aborted while pending": testAbortedWhilePending,
		"VMI gone at the end":   testVMIGoneAtCompletion,
		"vanishes":              testVanishes,
		"vanishes, pending":     testVanishesWhilePending,
		"migrates again":        testMigratesAgain,
		"two of a VM at once":   testTwoAtOnce,
		"limits are edited":     testLimitsEdited,
	})
	checkWrites(t, p)
}

// charged starts a migration in a full namespace. It returns the migration and its reservation when
// the target pod exists.
func charged(
	t *testing.T, c *kubevirttest.Cluster, ns string,
) (*kubevirttest.Migration, v1alpha1.MigrationReservation) {
	t.Helper()
	m := c.MigrateUntil(t, c.RunningVMI(t, ns, "vm", small()), virtv1.MigrationPreparingTarget)
	m.Await(t, virtv1.MigrationPreparingTarget)
	return m, awaitPhase(t, c, ns, v1alpha1.PhaseCharged)
}

// testSucceeds migrates a VM in a full namespace without manual help, and expects no leftovers.
func testSucceeds(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	if equality.Semantic.DeepEqual(plus(full(), r), full()) {
		t.Errorf("the reservation is empty: %+v", r)
	}
	if r.Spec.From != v1alpha1.Rendered {
		t.Errorf("reserved from %s, want %s", r.Spec.From, v1alpha1.Rendered)
	}
	wantMigratingVMs(t, c, ns, quota.DefaultPrefix, r)
	source := m.Source(t)
	c.Keep(t, source)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitPhase(t, c, ns, v1alpha1.PhaseReleasing)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r)) // both pods are still charged
	c.Release(t, source)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	awaitEvents(t, c, m.Get(t), quota.ReasonReserved, quota.ReasonGranted, quota.ReasonReleased)
}

func testFails(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	target := m.Target(t)
	c.Keep(t, target)
	m.Fail(t, "requested by the test")
	m.Await(t, virtv1.MigrationFailed)
	awaitPhase(t, c, ns, v1alpha1.PhaseReleasing)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	c.Release(t, target)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

func testIsAborted(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, _ := charged(t, c, ns)
	m.Until(t, virtv1.MigrationRunning) // before that, virt-controller puts it off until then
	m.Await(t, virtv1.MigrationRunning)
	m.Abort(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

func testVMDeleted(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	charged(t, c, ns)
	vmi := kubevirttest.NewVMI(ns, "vm", small())
	if err := c.Client.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// testAdministratorEdits has an administrator edit the quota during a migration. The edit becomes
// the base.
func testAdministratorEdits(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	setHard(t, c, ns, list("requests.memory", "10Gi"))
	edited := full()
	edited[corev1.ResourceRequestsMemory] = resource.MustParse("10Gi")
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(edited, r))
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, edited)
}

// testManagerResets has a quota manager write its base during a migration, as after its restart.
// The migration keeps its reservation.
func testManagerResets(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, nil)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	change(t, c, namespace, func() {
		namespace.Annotations = map[string]string{
			quota.DefaultManagerAnnotation: `{"limit":{"requestsMemory":"2Gi","pods":"1"}}`}
	})
	base := list("requests.memory", "2Gi", "pods", "1")
	c.Quota(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: kubevirttest.QuotaName,
			Labels: map[string]string{quota.DefaultManagerLabel: "true"},
		},
		Spec: corev1.ResourceQuotaSpec{Hard: base.DeepCopy()},
	})
	m, r := charged(t, c, ns)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(base, r))
	setHard(t, c, ns, base)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(base, r))
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}

// testSeveralQuotas raises each quota in its own resources. Quotas that do not apply to the pods
// stay unchanged.
func testSeveralQuotas(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, list("requests.memory", "2Gi"))
	lasting := strings.Repeat("lasting.", 31) + "quota" // 253 characters
	hards := map[string]corev1.ResourceList{
		"pods": list("pods", "1"), "count": list("count/pods", "1"), "terminating": list("pods",
			"1"), lasting: list("pods", "1"), "secrets": list("secrets", "7"),
	}
	scopes := map[string]corev1.ResourceQuotaScope{
		"terminating": corev1.ResourceQuotaScopeTerminating,
		lasting:       corev1.ResourceQuotaScopeNotTerminating,
	}
	for name, hard := range hards {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		q.Spec.Hard = hard.DeepCopy()
		if scope, ok := scopes[name]; ok {
			q.Spec.Scopes = []corev1.ResourceQuotaScope{scope}
		}
		c.Quota(t, q)
	}
	m, r := charged(t, c, ns)
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(list("requests.memory", "2Gi"), r))
	for name, want := range map[string]corev1.ResourceList{
		"pods": list("pods", "2"), "count": list("count/pods", "2"), "terminating": list("pods",
			"1"), lasting: list("pods", "2"), "secrets": list("secrets", "7"),
	} {
		awaitHard(t, c, ns, name, want)
	}
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	awaitHard(t, c, ns, "pods", hards["pods"])
	awaitHard(t, c, ns, lasting, hards[lasting])
	awaitHard(t, c, ns, "count", list("count/pods", "2")) // the ended source pod still counts
	if err := c.Client.Delete(t.Context(), m.Source(t)); err != nil {
		t.Fatal(err)
	}
	awaitClean(t, c, ns, "count", hards["count"])
	awaitClean(t, c, ns, kubevirttest.QuotaName, list("requests.memory", "2Gi"))
}

// testQuotaMadeAgain deletes and recreates a quota during a migration. The controller raises the
// new quota, so that no other pod takes the migration's quota.
func testQuotaMadeAgain(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	old := quotaOf(t, c, ns, kubevirttest.QuotaName)
	if err := c.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	again := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns,
		Name: kubevirttest.QuotaName}}
	again.Spec.Hard = full()
	if err := c.Client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	m.GoOn(t)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
}

// testLongName uses the longest VM name accepted by KubeVirt for migrations. No name or key written
// by Mooring contains the VM's name.
func testLongName(t *testing.T, c *kubevirttest.Cluster) {
	ns := c.Namespace(t, full())
	m := c.Migrate(t, c.RunningVMI(t, ns, strings.Repeat("v", 63), small()))
	m.Await(t, virtv1.MigrationSucceeded)
	awaitClean(t, c, ns, kubevirttest.QuotaName, full())
	awaitEvents(t, c, m.Get(t), quota.ReasonReserved, quota.ReasonGranted, quota.ReasonReleased)
}

// testThreeAtOnce migrates several VMs of one namespace at once.
func testThreeAtOnce(t *testing.T, c *kubevirttest.Cluster) {
	base := list("requests.memory", "4200Mi", "pods", "3")
	ns := c.Namespace(t, base)
	var vmis []*virtv1.VirtualMachineInstance
	for _, name := range []string{"one", "two", "three"} {
		vmis = append(vmis, c.RunningVMI(t, ns, name, small()))
	}
	var all []*kubevirttest.Migration
	for _, vmi := range vmis {
		all = append(all, c.Migrate(t, vmi))
	}
	for _, m := range all {
		m.Await(t, virtv1.MigrationSucceeded)
	}
	awaitClean(t, c, ns, kubevirttest.QuotaName, base)
}

func setHard(t *testing.T, c *kubevirttest.Cluster, namespace string, hard corev1.ResourceList) {
	t.Helper()
	q := quotaOf(t, c, namespace, kubevirttest.QuotaName)
	change(t, c, q, func() {
		for name, value := range hard {
			q.Spec.Hard[name] = value
		}
	})
}

// change modifies an object with do and writes it.
func change(t *testing.T, c *kubevirttest.Cluster, o client.Object, do func()) {
	t.Helper()
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	before := o.DeepCopyObject().(client.Object)
	do()
	if err := c.Client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func awaitEvents(
	t *testing.T, c *kubevirttest.Cluster, m *virtv1.VirtualMachineInstanceMigration,
	reasons ...string,
) {
	t.Helper()
	eventually(t, "the Events on the migration", func() error {
		return checkEvents(t, c, m, reasons)
	})
}

func missingEvents(want []string, got map[string]int) error {
	for _, reason := range want {
		if got[reason] != 1 {
			return fmt.Errorf("%d Events %s, want 1: %v", got[reason], reason, got)
		}
	}
	return nil
}
