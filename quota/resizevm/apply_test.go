package resizevm

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api"
)

// reconcile reconciles once. Kubelet and mooring-shim do not act.
func (p *plane) reconcile(t *testing.T) {
	t.Helper()
	if _, err := p.sut.Reconcile(t.Context(), reconcile.Request{
		NamespacedName: types.NamespacedName{Namespace: "vms", Name: "db"}}); err != nil {
		t.Fatal(err)
	}
	p.read(t)
}

// nodeFull acts as a kubelet without room.
func (p *plane) nodeFull(t *testing.T) {
	t.Helper()
	p.deferResize()
	if err := p.api.Status().Update(t.Context(), p.pod); err != nil {
		t.Fatal(err)
	}
	p.reconcile(t)
	if s := p.status(t); s.Reason != api.ResizeNoNode {
		t.Fatalf("status %+v", s)
	}
}

// A user removes the annotations while kubelet defers the growth.
func TestRemovedAnnotation(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.reconcile(t)
	p.nodeFull(t)
	p.annotate(t, api.ResizeMemoryKey, "")
	p.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.pod.Name,
		errors.New("a webhook refuses"))
	p.reconcile(t)
	if s := p.status(t); s.Reason != api.ResizeRefused {
		t.Errorf("status %+v after a refusal", s)
	}
	p.refuse = nil
	p.reconcile(t)
	if got := *p.resources(); !sameResources(got, p.shape.launcher) {
		t.Errorf("resources %+v, want those of the start", got)
	}
	if text, ok := p.read(t).Annotations[api.ResizeStatusKey]; ok {
		t.Errorf("status %s without a desired size", text)
	}
}

// Kubernetes 1.33 does not lower memory limits. The controller lowers the requests, and the other
// dimension gets its size.
func TestKeptMemoryLimit(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.VCPUsKey, "2")
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.steps(t, 5)
	p.keepLimits = true
	p.annotate(t, api.ResizeMemoryKey, "1Gi")
	p.annotate(t, api.VCPUsKey, "4")
	p.steps(t, 8)
	if p.guest.VCPUs != 4 || p.guest.Memory != gib {
		t.Errorf("the guest has %+v", p.guest)
	}
	is, was := p.resources().Requests[corev1.ResourceMemory],
		p.shape.launcher.Requests[corev1.ResourceMemory]
	if is.Value() > was.Value()+100<<20 {
		t.Errorf("request %s, at the start %s", &is, &was)
	}
	if s := p.status(t); s.Reason != api.ResizeRefused {
		t.Errorf("status %+v", s)
	}
}

// A VM on a full node gives way in each second minute, while another VM waits for quota.
func TestGiveWay(t *testing.T) {
	p := newPlane(t, false)
	now := time.Date(2026, 1, 1, 0, 2, 0, 0, time.UTC)
	p.sut.Now = func() time.Time { return now }
	other := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "vms",
		Name: "other", Annotations: map[string]string{
			api.ResizeStatusKey: statusText(&api.ResizeStatus{Reason: api.ResizeNoQuota})}}}
	if err := p.api.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.reconcile(t)
	p.nodeFull(t)
	grown := p.resources().DeepCopy()
	for minute, want := range []corev1.ResourceRequirements{*grown, p.shape.launcher,
		*grown, p.shape.launcher} {
		now = time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)
		for range 2 {
			p.reconcile(t)
			if !sameResources(*p.resources(), want) {
				t.Errorf("minute %d: resources %+v, want %+v", minute, *p.resources(), want)
			}
		}
	}
}
