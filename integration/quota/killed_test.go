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

// A controller that is killed after any of its writes, whether it has heard of it or not,
// leaves what its successor brings to the end: TestKilledAtEachWrite of package controller,
// with an API server, a quota controller and a virt-controller that are real.
func TestKilledAtEachWrite(t *testing.T) {
	c := kubevirttest.Start(t)
	install(t, c, controllerprogram.Name)
	inParallel(t, c, map[string]func(*testing.T, *kubevirttest.Cluster){
		"and knows what it wrote": func(t *testing.T, c *kubevirttest.Cluster) { testKilled(t, c, false) },
		"and does not know":       func(t *testing.T, c *kubevirttest.Cluster) { testKilled(t, c, true) },
	})
}

// testKilled migrates a VM to and fro, with a kill at one write later each time, until one
// migration is through before that.
func testKilled(t *testing.T, c *kubevirttest.Cluster, unsaid bool) {
	ns := c.Namespace(t, full())
	vmi := c.RunningVMI(t, ns, "vm", small())
	l := &life{c: c, api: asController(t, c), space: ns}
	seen := watching(t, c, ns)
	writes := 0
	for l.live(t, vmi, &controllertest.Killer{Writes: writes, AnswerLost: unsaid}) {
		writes++
	}
	if writes < 6 {
		t.Errorf("killed at %d writes only", writes)
	}
	seen().check(t, []version{{0, full()}})
}

// asController returns a client with the controller's rights, which caches nothing.
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

// life is a namespace with one VM and with controllers, one after the other.
type life struct {
	c          *kubevirttest.Cluster
	api        client.WithWatch
	space      string
	killer     *controllertest.Killer
	reconciler *controller.Reconciler
}

// live has the VM migrate once, and says whether the controller was killed. Its successor
// lives on.
func (l *life) live(t *testing.T, vmi *virtv1.VirtualMachineInstance, k *controllertest.Killer) (killed bool) {
	t.Helper()
	l.killer, l.reconciler = k, l.controller(k.Hooks())
	m := l.c.MigrateUntil(t, vmi, virtv1.MigrationPreparingTarget)
	l.until(t, v1alpha1.PhaseCharged)
	source := m.Source(t)
	l.c.Keep(t, source)
	m.GoOn(t)
	m.Await(t, virtv1.MigrationSucceeded)
	l.until(t, v1alpha1.PhaseReleasing)
	l.c.Release(t, source)
	l.work(t, "nothing to be left", func() error {
		return l.state(t, 0, func(*v1alpha1.MigrationReservation) bool { return true })
	})
	if left := quotaOf(t, l.c, l.space, kubevirttest.QuotaName).Annotations; len(left) > 0 {
		t.Errorf("annotations %v", left)
	}
	return k.Killed()
}

// until has the controllers work until the reservation is in a phase and the quota is raised
// by it.
func (l *life) until(t *testing.T, phase v1alpha1.Phase) {
	t.Helper()
	l.work(t, "a reservation that is "+string(phase), func() error {
		return l.state(t, 1, func(r *v1alpha1.MigrationReservation) bool { return r.Status.Phase == phase })
	})
}

// state is what keeps the ledger from having so many reservations that are right, or the
// quota from being raised by them.
func (l *life) state(t *testing.T, n int, right func(*v1alpha1.MigrationReservation) bool) error {
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
		return fmt.Errorf("%d reservations, and hard is %v: want %d, and %v", len(ledger), q.Spec.Hard, n, hard)
	}
	return nil
}

// work reconciles until check says nil. A controller that is killed has a successor.
func (l *life) work(t *testing.T, what string, check func() error) {
	t.Helper()
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: l.space}}
	eventually(t, what, func() error {
		_, err := l.reconciler.Reconcile(t.Context(), request)
		if errors.Is(err, controllertest.ErrKilled) {
			l.checkDeath(t)
			l.reconciler = l.controller(interceptor.Funcs{})
		}
		if err != nil {
			return err
		}
		return check()
	})
}

// checkDeath looks at what is left of a controller that was killed at its second write, when
// it knows of the first: the ledger says what the quota is not raised by yet.
func (l *life) checkDeath(t *testing.T) {
	t.Helper()
	if l.killer.Writes != 1 || l.killer.AnswerLost {
		return
	}
	hard, ledger := quotaOf(t, l.c, l.space, kubevirttest.QuotaName).Spec.Hard, reservations(t, l.c, l.space)
	if !equality.Semantic.DeepEqual(hard, full()) || len(ledger) != 1 {
		t.Errorf("killed after the first write: hard is %v and %d reservations, want %v and 1", hard, len(ledger), full())
	}
}

// controller returns one that remembers nothing and whose writes go through hooks.
func (l *life) controller(hooks interceptor.Funcs) *controller.Reconciler {
	return controller.NewReconciler(controller.Config{
		Client: interceptor.NewClient(l.api, hooks), Live: l.api, Events: events.NewFakeRecorder(1000),
		Metrics: controller.NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
	})
}
