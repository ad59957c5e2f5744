package resizevm

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// Kubelet does not change the CPUs of a Guaranteed pod beside a static CPU manager. The VM keeps its
// resources, and other sizes pass.
func TestStaticCPUManager(t *testing.T) {
	const refused = "static CPU manager"
	for name, tt := range map[string]struct {
		shape string
		ask   []string
		want  string // in the message; "": the VM gets the size
	}{
		"more vCPUs":  {"guaranteed", []string{api.VCPUsKey, "4"}, refused},
		"fewer vCPUs": {"guaranteed", []string{api.VCPUsKey, "1"}, refused},
		"both": {"guaranteed", []string{api.VCPUsKey, "4", api.ResizeMemoryKey, "2Gi"},
			refused},
		"as many vCPUs":    {"guaranteed", []string{api.VCPUsKey, "2"}, ""},
		"memory":           {"guaranteed", []string{api.ResizeMemoryKey, "2Gi"}, ""},
		"a Burstable pod":  {"burstable", []string{api.VCPUsKey, "4"}, ""},
		"no limit of CPUs": {"requests only", []string{api.VCPUsKey, "4"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(shapes()[tt.shape])
			w.staticCPUs = true
			before := *w.resources().DeepCopy()
			w.ask(tt.ask...)
			status := w.settle(t)
			if tt.want == "" {
				if status.Reason != api.ResizeDone {
					t.Errorf("status %+v", status)
				}
				return
			}
			if status.Reason != api.ResizeRefused || !strings.Contains(status.Message, tt.want) {
				t.Errorf("status %+v, want %s: %q", status, api.ResizeRefused, tt.want)
			}
			if !sameResources(before, *w.resources()) {
				t.Errorf("resources %+v, want %+v", *w.resources(), before)
			}
		})
	}
}

// A migration's target has KubeVirt's CPUs again, more than the VM was given. They stay beside a
// static CPU manager, and memory grows.
func TestMemoryBesideMoreCPUs(t *testing.T) {
	w := newWorld(shapes()["guaranteed"])
	rendered := *w.resources().DeepCopy()
	w.ask(api.VCPUsKey, "1")
	if status := w.settle(t); status.Reason != api.ResizeDone {
		t.Fatalf("status %+v", status)
	}
	*w.resources() = rendered
	w.accept()
	w.staticCPUs = true
	w.ask(api.ResizeMemoryKey, "2Gi")
	if status := w.settle(t); status.Reason != api.ResizeDone {
		t.Errorf("status %+v, want %s", status, api.ResizeDone)
	}
}

// KubeVirt's labels of the node decide. The node of a Burstable pod is not read.
func TestReadsCPUManager(t *testing.T) {
	for label, static := range map[string]bool{
		"kubevirt.io/cpumanager=true": true, "cpumanager=true": true,
		"kubevirt.io/cpumanager=false": false, "other=true": false,
	} {
		t.Run(label, func(t *testing.T) {
			p := newPlane(t, false)
			key, value, _ := strings.Cut(label, "=")
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node",
				Labels: map[string]string{key: value}}}
			if err := p.api.Create(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			for status, want := range map[string]bool{
				"Guaranteed Running": static, "Burstable Running": false,
				"Guaranteed Succeeded": false, "Guaranteed Failed": false,
			} {
				class, phase, _ := strings.Cut(status, " ")
				p.pod.Spec.NodeName = "node"
				p.pod.Status.QOSClass = corev1.PodQOSClass(class)
				p.pod.Status.Phase = corev1.PodPhase(phase)
				in := Input{Pods: []*corev1.Pod{p.pod}}
				if err := p.sut.readStaticCPUs(t.Context(), &in); err != nil ||
					in.StaticCPUs != want {
					t.Errorf("%s: %t, %v, want %t", status, in.StaticCPUs, err, want)
				}
			}
		})
	}
}

// The reconciler reads the node before each step.
func TestReconcilesWithCPUManager(t *testing.T) {
	p := newPlaneOf(t, "guaranteed", false)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "static",
		Labels: map[string]string{kubevirtv1.CPUManager: "true"}}}
	if err := p.api.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	p.pod.Spec.NodeName, p.pod.Status.QOSClass = node.Name, corev1.PodQOSGuaranteed
	if err := p.api.Update(t.Context(), p.pod); err != nil {
		t.Fatal(err)
	}
	p.annotate(t, api.VCPUsKey, "4")
	p.reconcile(t)
	if s := p.status(t); s.Reason != api.ResizeRefused ||
		!strings.Contains(s.Message, "static CPU manager") {
		t.Errorf("status %+v", s)
	}
}

// Without the node's labels no step is safe.
func TestUnreadableNode(t *testing.T) {
	p := newPlane(t, false)
	failure := errors.New("no answer")
	p.sut.Live = failingReader(p.api, &metav1.PartialObjectMetadata{}, &failure)
	p.pod.Spec.NodeName, p.pod.Status.QOSClass = "node", corev1.PodQOSGuaranteed
	in := Input{Pods: []*corev1.Pod{p.pod}}
	if err := p.sut.readStaticCPUs(t.Context(), &in); err == nil ||
		!strings.Contains(err.Error(), "reading node node: no answer") {
		t.Errorf("error %v", err)
	}
}
