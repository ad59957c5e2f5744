package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/util/validation"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota/controller/controllertest"
)

// step is an event of a migration and the expected state afterwards.
type step struct {
	name   string
	happen func(*testing.T, *world)
	want   func(*testing.T, *world)
}

func reserved(phase v1alpha1.Phase) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		if hard := w.quota(t).Spec.Hard; !same(hard, doubled()) {
			t.Fatalf("hard is %v, want %v", hard, doubled())
		}
		if all := w.ledger(t); len(all) != 1 || all[0].Status.Phase != phase {
			t.Fatalf("reservations %+v, want one that is %s", all, phase)
		}
	}
}

func cleaned(t *testing.T, w *world) { w.clean(t) }

// lives returns histories of migrations.
func lives() map[string][]step {
	begin := []step{
		{"pending", func(t *testing.T, w *world) {
			w.create(t, migration(kubevirtv1.MigrationPending))
		}, reserved(v1alpha1.PhaseGranted)},
		{"target", func(t *testing.T, w *world) { w.create(t, target()) },
			reserved(v1alpha1.PhaseCharged)},
	}
	with := func(more ...step) []step { return append(begin[:2:2], more...) }
	return map[string][]step{
		"succeeded": with(
			step{"success", func(t *testing.T, w *world) {
				w.toPhase(t, kubevirtv1.MigrationSucceeded)
			}, reserved(v1alpha1.PhaseReleasing)},
			step{"source gone", func(t *testing.T, w *world) {
				w.remove(t, launcher("source", nil))
			}, cleaned},
		),
		"failed": with(
			step{"failure", func(t *testing.T, w *world) {
				w.toPhase(t, kubevirtv1.MigrationFailed)
			}, reserved(v1alpha1.PhaseReleasing)},
			step{"target gone", func(t *testing.T, w *world) { w.remove(t, target()) }, cleaned},
		),
		"deleted": with(
			step{"migration and target gone", func(t *testing.T, w *world) {
				w.remove(t, migration(""))
				w.remove(t, target())
			}, cleaned},
		),
	}
}

func TestLives(t *testing.T) {
	for name, life := range lives() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler(interceptor.Funcs{})
			for _, s := range life {
				s.happen(t, w)
				if err := w.settle(t, r); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
				w.check(t)
				s.want(t, w)
			}
			checkEconomy(t, r)
		})
	}
}

// checkEconomy fails t if one migration needed too many calls.
func checkEconomy(t *testing.T, r *Reconciler) {
	t.Helper()
	conflicts, writes := 0.0, 0.0
	for _, k := range []kind{kindReservation, kindStatus, kindQuota, kindNamespace} {
		conflicts += testutil.ToFloat64(r.Metrics.writes.WithLabelValues(string(k),
			outcomeConflict))
		writes += testutil.ToFloat64(r.Metrics.writes.WithLabelValues(string(k), outcomeDone))
	}
	looks := testutil.ToFloat64(r.Metrics.reads.WithLabelValues(readLive)) +
		testutil.ToFloat64(r.Metrics.reads.WithLabelValues(readLedger))
	if conflicts > 0 || writes > 12 || looks > 2 {
		t.Errorf("%v conflicts, %v writes, %v looks at the API server; want none, 12 and 2 at most",
			conflicts, writes, looks)
	}
}

// TestKilledAtEachWrite kills the controller before or after each of its writes. The next
// controller continues from the stored state, and no quota is raised without a reservation.
func TestKilledAtEachWrite(t *testing.T) {
	for name, life := range lives() {
		checkKills(t, name, life, false)
	}
	checkKills(t, "succeeded", lives()["succeeded"], true)
}

func checkKills(t *testing.T, name string, life []step, unsaid bool) {
	t.Helper()
	writes := 0
	for killedAt(t, name, life, writes, unsaid) {
		writes++
	}
	if writes < 5 {
		t.Errorf("%s: killed at %d writes only", name, writes)
	}
}

// Names of 253 characters, the maximum, are not part of any name or key.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("v", 253)
	w := newWorldOf(t, long)
	r := w.reconciler(interceptor.Funcs{})
	m := migration(kubevirtv1.MigrationPending)
	m.Name, m.Spec.VMIName = long, long
	w.create(t, m)
	if err := w.settle(t, r); err != nil {
		t.Fatal(err)
	}
	reserved(v1alpha1.PhaseGranted)(t, w)
	for key := range w.quota(t).Annotations {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			t.Errorf("annotation %s: %v", key, problems)
		}
	}
}

// killedAt runs a history with a kill at the nth write and reports whether a kill happened.
func killedAt(t *testing.T, name string, life []step, n int, unsaid bool) (killed bool) {
	t.Run(fmt.Sprintf("%s/%d/unsaid=%t", name, n, unsaid), func(t *testing.T) {
		w := newWorld(t)
		k := &controllertest.Killer{Writes: n, AnswerLost: unsaid}
		r := w.reconciler(k.Hooks())
		for _, s := range life {
			s.happen(t, w)
			err := w.settle(t, r)
			w.check(t)
			if s.name == "pending" {
				w.checkLedgerFirst(t)
			}
			if errors.Is(err, controllertest.ErrKilled) {
				r = w.reconciler(interceptor.Funcs{})
				err = w.settle(t, r)
			}
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
			w.check(t)
			s.want(t, w)
		}
		killed = k.Killed()
	})
	return killed
}
