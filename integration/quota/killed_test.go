package quota

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/controller"
	"github.com/mooring-vm/mooring/quota/controller/controllertest"
)

// TestKilledAtEachWrite kills the controller after each of its writes, with and without the answer
// of the API server. The successor must finish the work. It repeats the unit test of package
// controller with a real API server, quota controller and virt-controller.
func TestKilledAtEachWrite(t *testing.T) {
	c := kubevirttest.Start(t)
	install(t, c, controllerprogram.Name)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"with the answer": func(t *testing.T, c *kubevirttest.Cluster) {
			testKilled(t, c, false)
		},
		"without the answer": func(t *testing.T, c *kubevirttest.Cluster) {
			testKilled(t, c, true)
		},
	})
}

// testKilled migrates a VM repeatedly, and kills the controller one write later each time. It ends
// when a migration finishes before the kill.
func testKilled(t *testing.T, c *kubevirttest.Cluster, unsaid bool) {
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	l := &controllerRun{c: c, api: asController(t, c), space: ns}
	seen := record(t, c, ns)
	writes := 0
	for l.migrateOnce(t, vmi, &controllertest.Killer{Writes: writes, AnswerLost: unsaid}) {
		writes++
	}
	if writes < 6 {
		t.Errorf("killed at %d writes only", writes)
	}
	seen().check(t, []version{{0, full()}})
}

// asController returns an uncached client with the controller's rights.
func asController(t *testing.T, c *kubevirttest.Cluster) client.WithWatch {
	t.Helper()
	kubeconfig, err := c.Plane.Kubeconfig(t.Context(), system, "mooring-controller")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	scheme, err := controller.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// controllerRun is a namespace with one VM and a sequence of controllers.
type controllerRun struct {
	c          *kubevirttest.Cluster
	api        client.WithWatch
	space      string
	killer     *controllertest.Killer
	reconciler *controller.Reconciler
}

// migrateOnce migrates the VM once and reports whether the controller was killed. The successor is
// not killed.
func (l *controllerRun) migrateOnce(
	t *testing.T, vmi *virtv1.VirtualMachineInstance, k *controllertest.Killer,
) (killed bool) {
	t.Helper()
	l.killer, l.reconciler = k, l.controller(k.Hooks())
	m := l.c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	l.awaitPhase(t, v1alpha1.PhaseCharged)
	source := m.Source(t)
	l.c.Keep(t, source)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	l.awaitPhase(t, v1alpha1.PhaseReleasing)
	l.c.Release(t, source)
	// The annotations of the base stay until status.hard has fallen.
	l.reconcileUntil(t, "all traces to be removed", func() error {
		if left := quotaOf(t, l.c, l.space, kubevirttest.QuotaName).Annotations; len(left) > 0 {
			return fmt.Errorf("annotations %v", left)
		}
		return l.checkState(t, 0, func(*v1alpha1.MigrationReservation) bool { return true })
	})
	return k.Killed()
}

// awaitPhase runs controllers until the reservation reaches the phase and the quota includes it.
func (l *controllerRun) awaitPhase(t *testing.T, phase v1alpha1.Phase) {
	t.Helper()
	l.reconcileUntil(t, "a reservation that is "+string(phase), func() error {
		return l.checkState(t, 1, func(r *v1alpha1.MigrationReservation) bool {
			return r.Status.Phase == phase
		})
	})
}

// checkState returns nil if the ledger has n correct reservations and the quota includes them, and
// else the difference.
func (l *controllerRun) checkState(
	t *testing.T, n int, right func(*v1alpha1.MigrationReservation) bool,
) error {
	t.Helper()
	ledger, hard := reservations(t, l.c, l.space), full()
	for i := range ledger {
		if !right(&ledger[i]) {
			return fmt.Errorf("%+v", ledger[i])
		}
		hard = plus(hard, ledger[i])
	}
	q := quotaOf(t, l.c, l.space, kubevirttest.QuotaName)
	if len(ledger) != n || !equality.Semantic.DeepEqual(q.Spec.Hard, hard) {
		return fmt.Errorf("%d reservations, and hard is %v: want %d, and %v", len(ledger),
			q.Spec.Hard, n, hard)
	}
	return nil
}

// reconcileUntil reconciles until check returns nil. A killed controller gets a successor.
func (l *controllerRun) reconcileUntil(t *testing.T, what string, check func() error) {
	t.Helper()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: l.space}}
	eventually(t, what, func() error {
		_, err := l.reconciler.Reconcile(t.Context(), request)
		if errors.Is(err, controllertest.ErrKilled) {
			l.checkStateAfterKill(t)
			l.reconciler = l.controller(interceptor.Funcs{})
		}
		if err != nil {
			return err
		}
		return check()
	})
}

// checkStateAfterKill checks the state after a kill at the second write: the ledger has the
// reservation, and the quota is not yet raised.
func (l *controllerRun) checkStateAfterKill(t *testing.T) {
	t.Helper()
	if l.killer.Writes != 1 || l.killer.AnswerLost {
		return
	}
	hard, ledger := quotaOf(t, l.c, l.space, kubevirttest.QuotaName).Spec.Hard,
		reservations(t, l.c, l.space)
	if !equality.Semantic.DeepEqual(hard, full()) || len(ledger) != 1 {
		t.Errorf("killed after the first write: hard is %v and %d reservations, want %v and 1",
			hard, len(ledger), full())
	}
}

// controller returns a controller without any state. Its writes go through hooks.
func (l *controllerRun) controller(hooks interceptor.Funcs) *controller.Reconciler {
	return controller.NewReconciler(controller.Config{
		Client: interceptor.NewClient(l.api, hooks), Live: l.api,
		Events:  events.NewFakeRecorder(1000),
		Metrics: controller.NewMetrics(prometheus.NewRegistry()),
		Logger:  slog.New(slog.DiscardHandler),
	})
}
