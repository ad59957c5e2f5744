package guard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// made is a launcher as it comes to the webhook: without a namespace of its own.
func made(memory, migration string) *corev1.Pod {
	pod := launcher("web", "1", memory)
	pod.Namespace, pod.Name, pod.GenerateName, pod.Status.Phase = "", "", "virt-launcher-web-", ""
	if migration != "" {
		pod.Labels[kubevirtv1.MigrationJobLabel] = migration
	}
	return pod
}

func TestLaunchers(t *testing.T) {
	refused := []string{"exceeded quota", "VM web", "ResourceQuota default", "limits.memory: requested 9Gi, free 8Gi"}
	plain := made("9Gi", "")
	delete(plain.Labels, kubevirtv1.AppLabel)
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		ns   *corev1.Namespace
		user string
		why  []string
	}{
		"fits":                      {made("8Gi", ""), namespace(), virtController, nil},
		"takes what is reserved":    {made("9Gi", ""), namespace(), virtController, refused},
		"is no launcher":            {plain, namespace(), eve, nil},
		"is a target":               {made("99Gi", "m-db"), namespace(), virtController, nil},
		"says that it is a target":  {made("9Gi", "m-db"), namespace(), eve, refused},
		"target without a ledger":   {made("99Gi", "m-other"), namespace(), virtController, nil},
		"in a namespace that ends":  {made("9Gi", ""), ending(), virtController, nil},
		"of Kubernetes' controller": {made("9Gi", ""), namespace(), guard.KubeSystem, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.ns, raised(), reservation(), kubevirtObject())
			r := ask(t, admissionv1.Create, nil, test.pod)
			r.Namespace, r.UserInfo.Username = "vms", test.user
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestRenderedTarget: what a target pod is charged is written to its reservation, once.
func TestRenderedTarget(t *testing.T) {
	pod := made("5Gi", "m-db")
	charge := quota.Reserve(v1alpha1.RoleLauncher, pod)
	for name, test := range map[string]struct {
		ledger  *v1alpha1.MigrationReservation
		dry     bool
		written bool
	}{
		"larger than reserved": {reservation(), false, true},
		"dry run":              {reservation(), true, false},
		"as reserved": {edit(reservation(), func(r *v1alpha1.MigrationReservation) {
			r.Spec.Pods = []v1alpha1.ReservedPod{charge}
		}), false, false},
		"as written before": {edit(reservation(), said(quota.FormatRendered(charge))), false, false},
		"another one before": {edit(reservation(), func(r *v1alpha1.MigrationReservation) {
			r.Spec.Pods = []v1alpha1.ReservedPod{charge}
			said(`{"role":"Launcher","charge":{"pods":"1"}}`)(r)
		}), false, true},
		"rubbish before": {edit(reservation(), said("{")), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), raised(), test.ledger, kubevirtObject())
			before := stored(t, w, test.ledger)
			r := ask(t, admissionv1.Create, nil, pod)
			r.Namespace, r.UserInfo.Username, r.DryRun = "vms", virtController, &test.dry
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r))
			after := stored(t, w, test.ledger)
			if changed := before.ResourceVersion != after.ResourceVersion; changed != test.written {
				t.Fatalf("written: %t, want %t", changed, test.written)
			}
			if !test.written {
				return
			}
			got, err := quota.Rendered(after)
			if err != nil || got == nil || !equality.Semantic.DeepEqual(*got, charge) {
				t.Errorf("%v: %s", err, cmp.Diff(charge, got))
			}
		})
	}
}

func said(text string) func(*v1alpha1.MigrationReservation) {
	return func(r *v1alpha1.MigrationReservation) {
		r.Annotations = map[string]string{quota.TargetAnnotation: text}
	}
}

func stored(t *testing.T, w *world, r *v1alpha1.MigrationReservation) *v1alpha1.MigrationReservation {
	t.Helper()
	out := &v1alpha1.MigrationReservation{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(r), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTargetOfAnUnknownKubeVirt: who cannot tell a target from a fake lets it be.
func TestTargetOfAnUnknownKubeVirt(t *testing.T) {
	w := newWorld(t, namespace(), raised(), reservation())
	r := ask(t, admissionv1.Create, nil, made("9Gi", "m-db"))
	r.Namespace = "vms"
	want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r))
}
