package resizevm

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota"
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
	unmark(t, p)
	p.steps(t, 1)
	if !p.marked(t) {
		t.Error("the instance has no label")
	}
}

// TestUnmarkedVMAtRest: a refused label of a VM resized earlier leaves its status. Unreadable quotas
// do not keep the label away.
func TestUnmarkedVMAtRest(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.steps(t, 5)
	before := p.status(t)
	unmark(t, p)
	p.refuseVMI = apierrors.NewForbidden(schema.GroupResource{
		Resource: "virtualmachineinstances"}, "db", errors.New("a webhook refuses"))
	p.steps(t, 1)
	if after := p.status(t); after.Reason != before.Reason || p.marked(t) {
		t.Errorf("status %+v after a refused label, marked: %t, want %+v", after, p.marked(t),
			before)
	}
	p.refuseVMI = nil
	p.sut.Snapshot = func(context.Context, string) (quota.Snapshot, error) {
		return quota.Snapshot{}, errors.New("no answer")
	}
	p.annotate(t, api.ResizeMemoryKey, "6Gi")
	if err := p.step(t); err == nil || !p.marked(t) {
		t.Errorf("with unreadable quotas: %v, marked: %t", err, p.marked(t))
	}
}

// unmark removes the label of the VM's instance.
func unmark(t *testing.T, p *plane) {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := p.api.Get(t.Context(), client.ObjectKeyFromObject(p.vmi), vmi); err != nil {
		t.Fatal(err)
	}
	delete(vmi.Labels, api.ResizedLabel)
	if err := p.api.Update(t.Context(), vmi); err != nil {
		t.Fatal(err)
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
