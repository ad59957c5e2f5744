package resizevm

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// plane is a fake API server with a world, and a reconciler.
type plane struct {
	*world
	api    client.WithWatch
	events *events.FakeRecorder
	sut    *Reconciler
	refuse error // answer to patches of pods

	refuseVMI error // answer to patches of the instance

	keepLimits bool // the API server is of Kubernetes 1.33, which does not lower memory limits
}

func newPlane(t *testing.T, observe bool) *plane {
	t.Helper()
	return newPlaneOf(t, "burstable", observe)
}

// newPlaneOf returns a plane with a launcher of a shape.
func newPlaneOf(t *testing.T, shape string, observe bool) *plane {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme,
		kubevirtv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	p := &plane{world: newWorld(shapes()[shape]), events: events.NewFakeRecorder(100)}
	p.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(p.vm, p.vmi, p.pod,
		&v1alpha1.NodeState{ObjectMeta: metav1.ObjectMeta{Name: "node"}}).
		WithInterceptorFuncs(interceptor.Funcs{Patch: p.patch, SubResourcePatch: p.resize}).Build()
	p.sut = NewReconciler(Config{
		Client: p.api, Live: p.api, Events: p.events, Logger: slog.New(slog.DiscardHandler),
		Options: quota.Options{Observe: observe},
		Cluster: func(context.Context) (virt.Cluster, error) { return cluster(), nil },
		Snapshot: func(context.Context, string) (quota.Snapshot, error) {
			return p.snapshot(), nil
		},
	})
	return p
}

func (p *plane) patch(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
	options ...client.PatchOption,
) error {
	if _, isPod := o.(*corev1.Pod); isPod && p.refuse != nil {
		return p.refuse
	}
	if _, isVMI := o.(*kubevirtv1.VirtualMachineInstance); isVMI && p.refuseVMI != nil {
		return p.refuseVMI
	}
	return c.Patch(ctx, o, patch, options...)
}

// resize is the subresource of pods, which the fake API server lacks.
func (p *plane) resize(ctx context.Context, c client.Client, name string, o client.Object,
	patch client.Patch, _ ...client.SubResourcePatchOption,
) error {
	if name != "resize" {
		return errors.New("unexpected subresource " + name)
	}
	if p.refuse != nil {
		return p.refuse
	}
	if p.keepLimits {
		data, err := patch.Data(o)
		now := &corev1.Pod{}
		if err := errors.Join(err, json.Unmarshal(data, now)); err != nil {
			return err
		}
		to := now.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory]
		if to.Cmp(p.resources().Limits[corev1.ResourceMemory]) < 0 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, o.GetName(), nil)
		}
	}
	return c.Patch(ctx, o, patch)
}

// annotate sets an annotation of the VM; "" removes it.
func (p *plane) annotate(t *testing.T, key, value string) {
	t.Helper()
	vm := p.read(t)
	if vm.Annotations == nil {
		vm.Annotations = map[string]string{}
	}
	vm.Annotations[key] = value
	if value == "" {
		delete(vm.Annotations, key)
	}
	if err := p.api.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
}

// read returns the VM, and refreshes the pod.
func (p *plane) read(t *testing.T) *kubevirtv1.VirtualMachine {
	t.Helper()
	vm := &kubevirtv1.VirtualMachine{}
	for _, o := range []client.Object{vm, p.pod} {
		key := client.ObjectKey{Namespace: "vms", Name: "db"}
		if o == client.Object(p.pod) {
			key.Name = p.pod.Name
		}
		if err := p.api.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
	}
	return vm
}

// step reconciles once, then acts as kubelet, mooring-shim and agent.
func (p *plane) step(t *testing.T) error {
	t.Helper()
	_, err := p.sut.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: "vms", Name: "db"}})
	p.read(t)
	p.accept()
	p.follow()
	if err := p.api.Status().Update(t.Context(), p.pod); err != nil {
		t.Fatal(err)
	}
	node := &v1alpha1.NodeState{}
	if err := p.api.Get(t.Context(), client.ObjectKey{Name: "node"}, node); err != nil {
		t.Fatal(err)
	}
	node.Status.Launchers = []v1alpha1.LauncherReport{{Resize: p.report, Pod: v1alpha1.PodReport{
		Namespace: "vms", Name: p.pod.Name, UID: string(p.pod.UID)}}}
	if err := p.api.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	return err
}

func (p *plane) steps(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := p.step(t); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *plane) status(t *testing.T) (s api.ResizeStatus) {
	t.Helper()
	text := p.read(t).Annotations[api.ResizeStatusKey]
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("status annotation %q: %v", text, err)
	}
	return s
}

func (p *plane) recorded() (all []string) {
	for len(p.events.Events) > 0 {
		all = append(all, <-p.events.Events)
	}
	return all
}

// A user annotates only the VM.
func TestReconcile(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.steps(t, 5)
	want := api.ResizeAmounts{Memory: "4Gi"}
	s := p.status(t)
	if s.Reason != api.ResizeDone || s.Desired != want || s.Actual.Memory != "4Gi" {
		t.Errorf("status %+v", s)
	}
	p.wantGrown(t, corev1.ResourceMemory, 3*gib)
	if got := p.pod.Annotations[api.ResizeMemoryKey]; got != "4Gi" {
		t.Errorf("the pod asks for %q", got)
	}
	all := p.recorded()
	if len(all) != 2 || !strings.HasPrefix(all[0], "Normal "+ReasonResizing) ||
		!strings.HasPrefix(all[1], "Normal "+ReasonResized) {
		t.Errorf("Events %q", all)
	}
	p.steps(t, 3)
	if all := p.recorded(); len(all) > 0 {
		t.Errorf("more Events: %q", all)
	}
	p.annotate(t, api.ResizeMemoryKey, "")
	p.steps(t, 1)
	if s := p.status(t); s.Reason != api.ResizeKept || s.Kept.Memory != "4Gi" {
		t.Errorf("status %+v without a desired size", s)
	}
	if got := p.pod.Annotations[api.ResizeMemoryKey]; got != "4Gi" {
		t.Errorf("the VM loses its size: %q", got)
	}
}

func TestBadValueIsReported(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gb")
	p.annotate(t, api.VCPUsKey, "4")
	p.steps(t, 3)
	if s := p.status(t); s.Reason != api.ResizeInvalid {
		t.Errorf("status %+v", s)
	}
	all := p.recorded()
	if len(all) != 1 || !strings.HasPrefix(all[0], "Warning "+ReasonFailed) ||
		!strings.Contains(all[0], `memory.resize.mooring.dev: "4Gb"`) {
		t.Errorf("Events %q", all)
	}
	if _, half := p.pod.Annotations[api.VCPUsKey]; half || !sameResources(*p.resources(),
		p.shape.launcher) {
		t.Error("the valid half was applied")
	}
}

// The API server may refuse a patch that the decision allows, such as an admission webhook.
func TestRefusedPatch(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.refuse = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, p.pod.Name,
		errors.New("exceeded quota"))
	p.steps(t, 1)
	if s := p.status(t); s.Reason != api.ResizeRefused ||
		!strings.Contains(s.Message, "exceeded quota") {
		t.Errorf("status %+v", s)
	}
	p.refuse = errors.New("connection reset")
	if err := p.step(t); !errors.Is(err, p.refuse) {
		t.Errorf("error %v, want that of the patch", err)
	}
	p.refuse = nil
	p.steps(t, 5)
	if s := p.status(t); s.Reason != api.ResizeDone {
		t.Errorf("status %+v", s)
	}
}

func TestObserveChangesNothing(t *testing.T) {
	p := newPlane(t, true)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	before, pod := p.read(t).ResourceVersion, p.pod.DeepCopy()
	p.steps(t, 3)
	if got := p.read(t).ResourceVersion; got != before {
		t.Error("the VM was changed")
	}
	if !sameResources(*p.resources(), pod.Spec.Containers[0].Resources) ||
		len(p.pod.Annotations) != len(pod.Annotations) {
		t.Error("the pod was changed")
	}
	all := p.recorded()
	if len(all) != 1 || !strings.HasPrefix(all[0], "Normal "+ReasonWouldResize) ||
		!strings.Contains(all[0], "would resize the VM to 4Gi of memory") {
		t.Errorf("Events %q", all)
	}
}

// A user removes the status together with the size. The admission policy needs the status while the
// VM keeps the size.
func TestRemovedStatusReturns(t *testing.T) {
	p := newPlane(t, false)
	p.annotate(t, api.ResizeMemoryKey, "4Gi")
	p.steps(t, 5)
	vm := p.read(t)
	vm.Annotations = nil
	if err := p.api.Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	p.steps(t, 1)
	if s := p.status(t); s.Reason != api.ResizeKept || s.Kept.Memory != "4Gi" {
		t.Errorf("status %+v", s)
	}
}
