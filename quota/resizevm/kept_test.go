package resizevm

import (
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// wantKept expects a status that shows the sizes without annotation.
func (w *world) wantKept(t *testing.T, reason api.ResizeReason, kept api.ResizeAmounts) {
	t.Helper()
	d := w.decide(t)
	if d.Status == nil || d.Status.Reason != reason || d.Status.Kept != kept {
		t.Errorf("status %+v, want %s with %+v", d.Status, reason, kept)
	}
	if d.Resources != nil || len(d.Annotations) > 0 {
		t.Errorf("%+v, want no patch", d)
	}
	w.apply(d)
}

func (w *world) wantNoStatus(t *testing.T) {
	t.Helper()
	if d := w.decide(t); d.Status != nil {
		t.Errorf("status %+v, want none", d.Status)
	}
}

// The VM keeps its size after the removal of the annotation, until its next start. The admission
// policy needs the status for that time.
func TestKeptSize(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.VCPUsKey, "4", api.ResizeMemoryKey, "4Gi")
	w.settle(t)
	w.ask(api.VCPUsKey, "4")
	w.wantKept(t, api.ResizeDone, api.ResizeAmounts{Memory: "4Gi"})
	w.ask()
	both := api.ResizeAmounts{VCPUs: 4, Memory: "4Gi"}
	w.wantKept(t, api.ResizeKept, both)
	w.vmi.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{}
	w.wantKept(t, api.ResizeKept, both)
	w.vmi.Status.MigrationState = nil
	w.wantKept(t, api.ResizeKept, both)
	w.start()
	w.wantNoStatus(t)
}

// The annotation is removed while the VM migrates.
func TestKeptSizeInMigration(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.VCPUsKey, "2", api.ResizeMemoryKey, "4Gi")
	w.settle(t)
	w.vmi.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{}
	w.ask(api.VCPUsKey, "2")
	w.wantKept(t, api.ResizeMigrating, api.ResizeAmounts{Memory: "4Gi"})
}

// A user removes all annotations while the VM migrates.
func TestKeptSizeInMigrationWithoutStatus(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.ResizeMemoryKey, "4Gi")
	w.settle(t)
	w.vmi.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{}
	w.vm.Annotations = map[string]string{}
	w.wantKept(t, api.ResizeKept, api.ResizeAmounts{Memory: "4Gi"})
}

// A VM with the size of its template keeps none.
func TestNoKeptSize(t *testing.T) {
	t.Run("back at the template", func(t *testing.T) {
		w := newWorld(shapes()["burstable"])
		w.ask(api.ResizeMemoryKey, "4Gi")
		w.settle(t)
		w.ask(api.ResizeMemoryKey, "1Gi")
		w.settle(t)
		w.ask()
		w.wantNoStatus(t)
	})
	t.Run("growth never accepted", func(t *testing.T) {
		w := newWorld(shapes()["burstable"])
		w.ask(api.ResizeMemoryKey, "4Gi")
		w.apply(w.decide(t))
		w.deferResize()
		w.ask()
		w.wantNoStatus(t)
	})
}
