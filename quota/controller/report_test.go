package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/controller/controllertest"
)

func causeOfHard() metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.hard"}
}

// eventReasons returns the reasons of the Events since the last call.
func eventReasons(r *Reconciler) []string {
	var all []string
	for {
		select {
		case e := <-r.Events.(*events.FakeRecorder).Events:
			all = append(all, strings.Fields(e)[1])
		default:
			return all
		}
	}
}

// Each change of a reservation causes one Event, despite failures.
func TestEventsAreWrittenOnce(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	life := lives()["succeeded"]
	life[1].happen = func(t *testing.T, w *world) {
		larger := target()
		larger.Spec.Containers[0].Resources = wanting("2Gi")
		w.create(t, larger)
	}
	var all []string
	for _, s := range life {
		s.happen(t, w)
		for range 2 {
			if err := w.settle(t, r); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, eventReasons(r)...)
	}
	want := []string{quota.ReasonReserved, quota.ReasonGranted, quota.ReasonGrown,
		quota.ReasonReleased}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

// A failed write causes no Event.
func TestFailuresAreNotReported(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler((&controllertest.Killer{}).Hooks())
	w.create(t, migration(kubevirtv1.MigrationPending))
	if err := w.settle(t, r); !errors.Is(err, controllertest.ErrKilled) {
		t.Fatal(err)
	}
	if all := eventReasons(r); len(all) > 0 {
		t.Errorf("Events %v, want none", all)
	}
}

// Faults are reported at their start, overruns after minOverrun.
func TestChangedStatesAreReported(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	ns := r.namespaces.get(namespaceName)
	over := func(name string) quota.Plan {
		excess := corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")}
		return quota.Plan{
			Overruns: []quota.Overrun{{Quota: "quota", Excess: excess}},
			Faults: []quota.Fault{{Kind: "Namespace", Name: namespaceName,
				Err: errors.New("no such share")}},
		}
	}
	for _, s := range []struct {
		name    string
		plan    quota.Plan
		wait    time.Duration
		reasons []string
		overrun float64
	}{
		{"begins", over("pods"), 0, []string{ReasonFault}, 0},
		{"has lasted", over("pods"), minOverrun, []string{ReasonOverrun}, 1},
		{"lasts on", over("pods"), minOverrun, nil, 1},
		{"is another", over("requests.cpu"), 0, nil, 0},
		{"has lasted again", over("requests.cpu"), minOverrun, []string{ReasonOverrun}, 1},
		{"ends", quota.Plan{}, 0, nil, 0},
		{"begins again", over("pods"), 0, []string{ReasonFault}, 0},
		{"ends soon", quota.Plan{}, minOverrun, nil, 0},
	} {
		w.now = w.now.Add(s.wait)
		again := r.reportStates(ns, s.plan)
		if waits := len(s.plan.Overruns) > 0 && s.overrun == 0; waits == again.IsZero() {
			t.Errorf("%s: next report at %v", s.name, again)
		}
		if diff := cmp.Diff(s.reasons, eventReasons(r)); diff != "" {
			t.Errorf("%s: reasons (-want +got):\n%s", s.name, diff)
		}
		if got := testutil.ToFloat64(r.Metrics.overruns); got != s.overrun {
			t.Errorf("%s: %v overruns, want %v", s.name, got, s.overrun)
		}
	}
	r.reportStates(ns, over("pods"))
	r.forget(ns)
	if got := testutil.ToFloat64(r.Metrics.faults); got != 0 {
		t.Errorf("%v faults of a namespace that is gone", got)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	r.event(&corev1.ObjectReference{}, corev1.EventTypeNormal, "R", strings.Repeat("ä", plaintext.MaxNote))
	if e := <-r.Events.(*events.FakeRecorder).Events; len(e) > plaintext.MaxNote+len("Normal R ") ||
		!strings.HasSuffix(e, "ä...") {
		t.Errorf("%d bytes: %s", len(e), e)
	}
}
