package resizevm

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

func TestGrowAndShrink(t *testing.T) {
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(s)
			w.ask(api.VCPUsKey, "4", api.ResizeMemoryKey, "4Gi")
			status := w.settle(t)
			want := api.ResizeAmounts{VCPUs: 4, Memory: "4Gi"}
			if status.Reason != api.ResizeDone || status.Desired != want || *status.Actual != want {
				t.Errorf("status %+v", status)
			}
			w.wantGrown(t, corev1.ResourceMemory, 3*gib)
			w.wantGrown(t, corev1.ResourceCPU, 0)
			w.ask(api.VCPUsKey, "2", api.ResizeMemoryKey, "1Gi")
			if status := w.settle(t); status.Reason != api.ResizeDone {
				t.Errorf("status %+v", status)
			}
			if got := *w.resources(); !sameResources(got, s.launcher) {
				t.Errorf("resources %+v, want those of the start", got)
			}
		})
	}
}

// wantGrown checks that each amount of a resource grew by more than this.
func (w *world) wantGrown(t *testing.T, name corev1.ResourceName, by int64) {
	t.Helper()
	for _, lists := range [][2]corev1.ResourceList{
		{w.shape.launcher.Requests, w.resources().Requests},
		{w.shape.launcher.Limits, w.resources().Limits},
	} {
		was, had := lists[0][name]
		is, has := lists[1][name]
		was.Add(*resource.NewQuantity(by, resource.BinarySI))
		if had != has || had && is.Cmp(was) <= 0 {
			t.Errorf("%s is %s, want more than %s", name, &is, &was)
		}
	}
}

// A new launcher gets the size again: all state is on the VM.
func TestRestart(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.ResizeMemoryKey, "4Gi")
	w.settle(t)
	w.start()
	if status := w.settle(t); status.Reason != api.ResizeDone || w.guest.Memory != 4*gib {
		t.Errorf("status %+v, guest %+v", status, w.guest)
	}
}

// Mooring changes only the dimensions that the VM asks for.
func TestOtherDimensionStays(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.ResizeMemoryKey, "4Gi")
	w.settle(t)
	memory := w.resources().Limits[corev1.ResourceMemory]
	w.ask(api.VCPUsKey, "1")
	if status := w.settle(t); status.Reason != api.ResizeDone || w.guest.Memory != 4*gib {
		t.Errorf("status %+v, guest %+v", status, w.guest)
	}
	if got := w.resources().Limits[corev1.ResourceMemory]; got.Cmp(memory) < 0 {
		t.Errorf("memory limit %s, want at least %s", &got, &memory)
	}
	if got := w.resources().Limits[corev1.ResourceCPU]; got.String() != "1" {
		t.Errorf("CPU limit %s, want 1", &got)
	}
}

// The order of the steps: resources up, then annotations; annotations, then resources down.
func TestOrder(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	w.ask(api.ResizeMemoryKey, "4Gi")
	d := w.decide(t)
	if d.Resources == nil || len(d.Annotations) > 0 || d.Status.Reason != api.ResizeUnderWay {
		t.Fatalf("first step %+v, want the resources", d)
	}
	w.apply(d)
	if d := w.decide(t); d.Resources != nil || len(d.Annotations) > 0 ||
		d.Status.Reason != api.ResizeUnderWay {
		t.Fatalf("before kubelet's answer %+v, want nothing", d)
	}
	w.accept()
	w.pod.Annotations[api.ResizeMemoryKey+"/container.compute"] = "2Gi"
	d = w.decide(t)
	if d.Resources != nil || len(d.Annotations) != 2 ||
		*d.Annotations[api.ResizeMemoryKey] != "4Gi" {
		t.Fatalf("second step %+v, want the annotation and no narrower one", d)
	}
	w.apply(d)
	w.report = &v1alpha1.ResizeReport{State: "Resizing", Wanted: &v1alpha1.SizeReport{
		Memory: 4 * gib}}
	if d := w.decide(t); d.Resources != nil || d.Annotations != nil {
		t.Fatalf("while the shim works %+v, want nothing", d)
	}
	w.follow()
	w.ask(api.ResizeMemoryKey, "1Gi")
	if d := w.decide(t); d.Resources != nil || len(d.Annotations) != 1 {
		t.Fatalf("shrink %+v, want the annotation first", d)
	}
}

// The status names the request that it belongs to, also if another annotation is unreadable.
func TestStatusNamesTheRequest(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	for _, memory := range []string{"4Gi", "9Gi", "4Gb"} {
		w.ask(api.ResizeMemoryKey, memory, api.ResizeRequestKey, "r1")
		if s := w.decide(t).Status; s.Request != "r1" {
			t.Errorf("%s: status %+v", memory, s)
		}
	}
	w.ask(api.ResizeMemoryKey, "4Gi", api.ResizeRequestKey, "r/1")
	if s := w.decide(t).Status; s.Request != "" || s.Reason != api.ResizeInvalid {
		t.Errorf("status %+v with a bad name", s)
	}
}

func TestNothingAsked(t *testing.T) {
	w := newWorld(shapes()["burstable"])
	if d := w.decide(t); d.Status != nil || d.Pod != nil {
		t.Errorf("%+v, want nothing", d)
	}
}

func TestRefusals(t *testing.T) {
	type change = func(*world)
	for name, tt := range map[string]struct {
		change change
		reason api.ResizeReason
		want   []string
	}{
		"bad value": {func(w *world) { w.ask(api.VCPUsKey, "0", api.ResizeMemoryKey, "4Gi") },
			api.ResizeInvalid, []string{api.VCPUsKey, `"0"`, "between 1 and 8192"}},
		"not started": {func(w *world) { w.vmi = nil }, api.ResizeNotRunning, nil},
		"starts": {func(w *world) { w.pod.Status.Phase = corev1.PodPending },
			api.ResizeNotRunning, nil},
		"ends": {func(w *world) { w.pod.Status.Phase = corev1.PodSucceeded },
			api.ResizeNotRunning, nil},
		"migrates": {func(w *world) {
			w.vmi.Status.MigrationState = &kubevirtv1.VirtualMachineInstanceMigrationState{}
		}, api.ResizeMigrating, nil},
		"live update": {func(w *world) {
			w.vmi.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{
				Type:   kubevirtv1.VirtualMachineInstanceMemoryChange,
				Status: corev1.ConditionTrue}}
		}, api.ResizeMigrating, nil},
		"no sidecar": {func(w *world) { delete(w.pod.Annotations, api.SidecarKey) },
			api.ResizeRefused, []string{api.InjectSidecarKey, "restart"}},
		"no record": {func(w *world) { delete(w.pod.Annotations, api.RenderedKey) },
			api.ResizeRefused, []string{api.RenderedKey, "restart"}},
		"dedicated CPUs": {func(w *world) {
			w.pod.Status.QOSClass = corev1.PodQOSGuaranteed
			w.vmi.Spec.Domain.CPU.DedicatedCPUPlacement = true
		}, api.ResizeRefused, []string{"dedicated CPUs"}},
		"beyond maxGuest": {func(w *world) { w.ask(api.ResizeMemoryKey, "9Gi") },
			api.ResizeRefused, []string{api.ResizeMemoryKey, `"9Gi"`, "at most 8Gi"}},
		"beyond maxSockets": {func(w *world) { w.ask(api.VCPUsKey, "9") },
			api.ResizeRefused, []string{api.VCPUsKey, `"9"`, "1 to 8"}},
		"huge pages": {func(w *world) {
			w.vmi.Spec.Domain.Memory.Hugepages = &kubevirtv1.Hugepages{PageSize: "2Mi"}
		}, api.ResizeRefused, []string{api.ResizeMemoryKey, "want 1Gi", "restarts"}},
		"quota": {func(w *world) { w.hard = list("limits.memory", "4Gi") },
			api.ResizeNoQuota, []string{"ResourceQuota quota", "limits.memory", "raise the quota"}},
		"node": {func(w *world) {
			w.apply(mustDecide(w))
			w.deferResize()
		}, api.ResizeNoNode, []string{"Deferred", "enough memory", "another node"}},
		"shim": {func(w *world) {
			w.apply(mustDecide(w))
			w.accept()
			w.apply(mustDecide(w))
			w.report = &v1alpha1.ResizeReport{State: "Failed", Error: "the guest refuses",
				Wanted: &v1alpha1.SizeReport{VCPUs: 4, Memory: 4 * gib}}
		}, api.ResizeFailed, []string{"the guest refuses"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(shapes()["burstable"])
			w.ask(api.VCPUsKey, "4", api.ResizeMemoryKey, "4Gi")
			tt.change(w)
			d := w.decide(t)
			if d.Resources != nil || len(d.Annotations) > 0 {
				t.Errorf("patches the pod: %+v", d)
			}
			if d.Status == nil || d.Status.Reason != tt.reason {
				t.Fatalf("status %+v, want %s", d.Status, tt.reason)
			}
			for _, part := range tt.want {
				if !strings.Contains(d.Status.Message, part) {
					t.Errorf("%q is not in %q", part, d.Status.Message)
				}
			}
		})
	}
}

func mustDecide(w *world) Decision {
	d, err := Decide(w.input())
	if err != nil {
		panic(err)
	}
	return d
}
