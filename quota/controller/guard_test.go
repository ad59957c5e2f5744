package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/quota"
)

// probes answers the probes of a reconciler.
type probes struct {
	answer error
	n      int
}

func (p *probes) hooks() interceptor.Funcs {
	return interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch,
		o client.Object, options ...client.CreateOption) error {
		if o.GetLabels()[quota.ProbeLabel] == "" {
			return c.Create(ctx, o, options...)
		}
		if !slices.Contains(options, client.CreateOption(client.DryRunAll)) {
			return errors.New("the probe is no dry run")
		}
		p.n++
		return p.answer
	}}
}

func proof() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: quota.ReasonGuarded}}
}

// TestGuardIsProven: the controller raises a quota only after the guard has answered a probe, and
// asks again when the proof is old or the label was removed.
func TestGuardIsProven(t *testing.T) {
	w, p := newWorld(t), &probes{}
	r := w.reconciler(p.hooks())
	r.Guarded = func(string) bool { return true }
	w.create(t, migration(kubevirtv1.MigrationPending))
	for _, answer := range []error{nil, errors.New("another webhook refuses it")} {
		p.answer = answer
		w.must(t, w.settle(t, r))
		result, err := reconcileOnce(r)
		if err != nil || result.RequeueAfter <= 0 {
			t.Errorf("got %v, %v: want another try", result, err)
		}
		if hard := w.quota(t).Spec.Hard; !same(hard, base()) {
			t.Fatalf("hard is %v without a proof", hard)
		}
	}
	p.answer = proof()
	w.must(t, w.settle(t, r)) // proves
	w.must(t, w.settle(t, r))
	if hard := w.quota(t).Spec.Hard; !same(hard, doubled()) {
		t.Fatalf("hard is %v, want %v", hard, doubled())
	}
	asked := p.n
	w.must(t, w.settle(t, r))
	if p.n != asked {
		t.Error("a raised quota needs no further proof")
	}
	q := w.quota(t)
	q.Spec.Hard = base() // a quota manager resets it
	w.must(t, w.api.Update(t.Context(), q))
	w.now = w.now.Add(proofPeriod)
	p.answer = nil
	w.must(t, w.settle(t, r))
	if hard := w.quota(t).Spec.Hard; !same(hard, base()) || p.n == asked {
		t.Errorf("hard is %v by an old proof", hard)
	}
}

// In namespaces without webhooks the controller asks for no proof: it would never come.
func TestExcludedNamespaceNeedsNoProof(t *testing.T) {
	w, p := newWorld(t), &probes{}
	r := w.reconciler(p.hooks())
	r.Guarded = func(name string) bool { return name != namespaceName }
	w.create(t, migration(kubevirtv1.MigrationPending))
	w.must(t, w.settle(t, r))
	if hard := w.quota(t).Spec.Hard; !same(hard, doubled()) || p.n > 0 {
		t.Errorf("hard is %v after %d probes", hard, p.n)
	}
}

// TestOpenNamespaceIsReported: an Event records that an administrator opened the guard, and its
// end.
func TestOpenNamespaceIsReported(t *testing.T) {
	w := newWorld(t)
	r := w.reconciler(interceptor.Funcs{})
	recorder := events.NewFakeRecorder(10)
	r.Events = recorder
	ns := &corev1.Namespace{}
	w.must(t, w.api.Get(t.Context(), client.ObjectKey{Name: namespaceName}, ns))
	ns.Annotations = map[string]string{
		quota.OpenAnnotation: w.now.Add(time.Hour).Format(time.RFC3339)}
	w.must(t, w.api.Update(t.Context(), ns))
	result, err := reconcileOnce(r)
	if err != nil || result.RequeueAfter != time.Hour {
		t.Errorf("got %v, %v: want a plan at the end", result, err)
	}
	_, err = reconcileOnce(r)
	w.must(t, err)
	w.now = w.now.Add(time.Hour)
	_, err = reconcileOnce(r)
	w.must(t, err)
	close(recorder.Events)
	var got []string
	for event := range recorder.Events {
		got = append(got, strings.Fields(event)[1])
	}
	if want := []string{ReasonOpened, ReasonClosed}; !slices.Equal(got, want) {
		t.Errorf("Events %v, want %v", got, want)
	}
}
