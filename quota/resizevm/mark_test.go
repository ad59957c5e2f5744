package resizevm

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
)

// marked reports whether the VM's instance has the label.
func (p *plane) marked(t *testing.T) bool {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := p.api.Get(t.Context(), client.ObjectKeyFromObject(p.vmi), vmi); err != nil {
		t.Fatal(err)
	}
	return vmi.Labels[api.ResizedLabel] == "true"
}

// TestMarkComesFirst: no launcher has a size before the instance has the label.
func TestMarkComesFirst(t *testing.T) {
	p := newPlane(t, false)
	p.steps(t, 2)
	if p.marked(t) {
		t.Fatal("a VM without a desired size is marked")
	}
	p.refuseVMI = apierrors.NewForbidden(schema.GroupResource{
		Resource: "virtualmachineinstances"}, "db", errors.New("a webhook refuses"))
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.reconcile(t)
	if s := p.status(t); s.Reason != api.ResizeRefused {
		t.Errorf("status %+v after a refused label", s)
	}
	if got := *p.resources(); !sameResources(got, p.shape.launcher) {
		t.Errorf("resources %+v without the label", got)
	}
	p.refuseVMI = nil
	p.reconcile(t)
	if !p.marked(t) {
		t.Error("the instance has no label")
	}
	if got := *p.resources(); sameResources(got, p.shape.launcher) {
		t.Errorf("resources %+v, want grown ones", got)
	}
}

// TestMarkIsRestored: a VM resized by an earlier version, or with a removed label, is marked.
func TestMarkIsRestored(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.steps(t, 5)
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := p.api.Get(t.Context(), client.ObjectKeyFromObject(p.vmi), vmi); err != nil {
		t.Fatal(err)
	}
	delete(vmi.Labels, api.ResizedLabel)
	if err := p.api.Update(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	p.steps(t, 1)
	if !p.marked(t) {
		t.Error("the instance has no label")
	}
}

// TestObserveMarksNone: in mode observe the controller changes no instance.
func TestObserveMarksNone(t *testing.T) {
	p := newPlane(t, true)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.reconcile(t)
	if p.marked(t) {
		t.Error("the instance has the label")
	}
}
