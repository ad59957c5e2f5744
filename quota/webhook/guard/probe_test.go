package guard_test

import (
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// TestProbe: the webhook refuses a probe in a way that the controller recognises, also from exempt
// users and in mode observe. The label means nothing without a dry run.
func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		dryRun, observe, proof bool
	}{
		"dry run":         {true, false, true},
		"in mode observe": {true, true, true},
		"no dry run":      {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), raised(), reservation(), kubevirtObject())
			if test.observe {
				w.guard.Observe = &observe.Reporter{}
			}
			r := ask(t, admissionv1.Create, nil, quota.Probe("vms"))
			r.UserInfo.Username, r.DryRun = own, &test.dryRun
			got := guard.NewPod(w.guard).Handle(t.Context(), r)
			if test.proof && got.Allowed {
				t.Fatal("the probe passed")
			}
			if !test.proof {
				want(t, got)
				return
			}
			if answer := (&apierrors.StatusError{ErrStatus: *got.Result}); !quota.IsProof(answer) {
				t.Errorf("%v is no proof", answer)
			}
		})
	}
}

// TestOpenNamespace: pods pass while an administrator has opened the namespace.
func TestOpenNamespace(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		value string
		why   []string
	}{
		"open":     {now.Add(time.Hour).Format(time.RFC3339), nil},
		"over":     {now.Add(-time.Hour).Format(time.RFC3339), []string{"exceeded quota"}},
		"too long": {now.Add(48 * time.Hour).Format(time.RFC3339), []string{"exceeded quota"}},
		"no time":  {"true", []string{"exceeded quota"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(quota.OpenAnnotation, test.value), raised(), reservation(),
				kubevirtObject())
			want(t, guard.NewPod(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Create, nil, plain("big", "9Gi"))), test.why...)
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Create, nil, launcher("web", "1", "9Gi"))), test.why...)
		})
	}
}
