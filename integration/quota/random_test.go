package quota

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

const (
	walkers   = 3
	walkSteps = 15
)

// TestRandomly starts, holds, fails and aborts migrations in several namespaces. Meanwhile it
// deletes VMs, edits and recreates quotas, and kills the controller repeatedly. No quota may fall
// below its base or exceed base and ledger. In the end no trace may remain.
func TestRandomly(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c, p := start(t, "--leader-election=false") // a killed leader would keep its lease for a while
	killing, stopKilling := context.WithCancel(t.Context())
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		p.killRepeatedly(killing, t, rand.New(rand.NewPCG(seed, walkers)))
	}()
	var raised atomic.Int64
	t.Run("walks", func(t *testing.T) {
		for i := range walkers {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				w := newWalk(t, c, rand.New(rand.NewPCG(seed, uint64(i))))
				raised.Add(int64(w.run(t)))
			})
		}
	})
	stopKilling()
	<-killed
	if raised.Load() == 0 {
		t.Error("no quota was ever raised")
	}
}

// killRepeatedly kills and restarts the controller until ctx ends. The controller runs afterwards.
func (p *program) killRepeatedly(ctx context.Context, t *testing.T, random *rand.Rand) {
	for times := 1; ; times++ {
		select {
		case <-ctx.Done():
			t.Logf("killed %d times", times-1)
			return
		case <-time.After(time.Duration(200+random.IntN(3000)) * time.Millisecond):
		}
		p.kill(t)
		p.start(t)
	}
}

// walk is a namespace for a random sequence of steps.
type walk struct {
	c      *kubevirttest.Cluster
	random *rand.Rand
	space  string
	vmis   []*virtv1.VirtualMachineInstance
	bases  []version // written bases, oldest first
}

// twoVMQuota returns a quota for two VMs, in one of several forms. No form equals a raised form,
// because writing the raised value is no edit (package quota).
func twoVMQuota(way int) corev1.ResourceList {
	return []corev1.ResourceList{
		list("requests.memory", "3Gi", "requests.cpu", "600m", "pods", "2"),
		list("requests.memory", "4Gi", "requests.cpu", "600m", "pods", "2"),
		list("requests.memory", "3Gi", "requests.cpu", "700m", "pods", "50"),
	}[way]
}

func newWalk(t *testing.T, c *kubevirttest.Cluster, random *rand.Rand) *walk {
	t.Helper()
	w := &walk{c: c, random: random, space: c.Namespace(t, twoVMQuota(0))}
	w.bases = []version{{0, twoVMQuota(0)}}
	for i := range 2 {
		w.vmis = append(w.vmis, c.RunningVMI(t, w.space, fmt.Sprintf("vm-%d", i), small()))
	}
	return w
}

// run takes random steps, ends all migrations, and returns the number of raises.
func (w *walk) run(t *testing.T) int {
	t.Helper()
	seen := record(t, w.c, w.space)
	for range walkSteps {
		w.step(t)
		select {
		case <-time.After(time.Duration(w.random.IntN(1500)) * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	for _, m := range w.notEnded(t) { // even an abort waits until the migration runs
		continueMigration(t, w.c, m)
	}
	awaitClean(t, w.c, w.space, kubevirttest.QuotaName, w.bases[len(w.bases)-1].hard)
	return seen().check(t, w.bases)
}

func (w *walk) step(t *testing.T) {
	t.Helper()
	switch n := w.random.IntN(12); {
	case n < 4:
		w.startMigration(t)
	case n < 6:
		if all := w.activeMigrations(t); len(all) > 0 {
			continueMigration(t, w.c, all[w.random.IntN(len(all))])
		}
	case n < 7:
		if all := w.activeMigrations(t); len(all) > 0 {
			if err := w.c.Client.Delete(t.Context(),
				all[w.random.IntN(len(all))]); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
	case n < 9:
		w.edit(t)
	case n < 10:
		w.recreateQuota(t)
	default:
		w.replace(t)
	}
}

// replace deletes a VM with its migration and makes it again. The new VM may start later.
func (w *walk) replace(t *testing.T) {
	t.Helper()
	vmi := w.vmis[w.random.IntN(len(w.vmis))]
	if err := w.c.Client.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	eventually(t, vmi.Name+" to be gone", func() error {
		err := w.c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi),
			&virtv1.VirtualMachineInstance{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return cmp.Or(err, errors.New("it still exists"))
	})
	w.c.VMI(t, w.space, vmi.Name, small())
}

// startMigration starts a migration of a running VM, with a random end. KubeVirt refuses a second
// migration of the same VM.
func (w *walk) startMigration(t *testing.T) {
	t.Helper()
	until := []virtv1.VirtualMachineInstanceMigrationPhase{
		"", virtv1.MigrationPreparingTarget, virtv1.MigrationTargetReady, virtv1.MigrationRunning,
	}[w.random.IntN(4)]
	vmi := w.vmis[w.random.IntN(len(w.vmis))]
	if err := w.c.Client.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi); err != nil {
		t.Fatal(err)
	}
	if !vmi.IsRunning() {
		return
	}
	m := &virtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{Namespace: w.space,
		GenerateName: vmi.Name + "-"}}
	m.Spec.VMIName = vmi.Name
	m.Annotations = map[string]string{}
	if until != "" {
		m.Annotations[actor.Until] = string(until)
	}
	if w.random.IntN(4) == 0 {
		m.Annotations[actor.Fail] = "random failure"
	}
	if err := w.c.Client.Create(t.Context(), m); err != nil &&
		!strings.Contains(err.Error(), "in-flight migration") {
		t.Fatal(err)
	}
}

// activeMigrations returns active migrations without an abort request.
func (w *walk) activeMigrations(t *testing.T) []*virtv1.VirtualMachineInstanceMigration {
	t.Helper()
	return slices.DeleteFunc(w.notEnded(t), func(m *virtv1.VirtualMachineInstanceMigration) bool {
		return m.DeletionTimestamp != nil
	})
}

func (w *walk) notEnded(t *testing.T) []*virtv1.VirtualMachineInstanceMigration {
	t.Helper()
	list := &virtv1.VirtualMachineInstanceMigrationList{}
	if err := w.c.Client.List(t.Context(), list, client.InNamespace(w.space)); err != nil {
		t.Fatal(err)
	}
	var all []*virtv1.VirtualMachineInstanceMigration
	for i := range list.Items {
		if !list.Items[i].IsFinal() {
			all = append(all, &list.Items[i])
		}
	}
	return all
}

// continueMigration lets a migration proceed to its end, if it still exists.
func continueMigration(
	t *testing.T, c *kubevirttest.Cluster, m *virtv1.VirtualMachineInstanceMigration,
) {
	t.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + actor.Until + `":null}}}`)
	if err := c.Client.Patch(t.Context(), m,
		client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// edit writes another base, like an administrator.
func (w *walk) edit(t *testing.T) {
	t.Helper()
	base := twoVMQuota(w.random.IntN(3))
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"hard": base}})
	if err != nil {
		t.Fatal(err)
	}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.space,
		Name: kubevirttest.QuotaName}}
	if err := w.c.Client.Patch(t.Context(), q, client.RawPatch(types.MergePatchType, patch)); err !=
		nil {
		t.Fatal(err)
	}
	w.recordBase(t, q, base)
}

// recreateQuota deletes and recreates the quota.
func (w *walk) recreateQuota(t *testing.T) {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: w.space,
		Name: kubevirttest.QuotaName}}
	if err := w.c.Client.Delete(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	base := twoVMQuota(w.random.IntN(3))
	q = &corev1.ResourceQuota{ObjectMeta: q.ObjectMeta, Spec: corev1.ResourceQuotaSpec{Hard: base}}
	q.ObjectMeta = metav1.ObjectMeta{Namespace: w.space, Name: kubevirttest.QuotaName}
	if err := w.c.Client.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	w.recordBase(t, q, base)
}

// recordBase records a written base.
func (w *walk) recordBase(t *testing.T, q *corev1.ResourceQuota, base corev1.ResourceList) {
	t.Helper()
	v := versionOf(t, q)
	w.bases = append(w.bases, version{v.at, base})
}
