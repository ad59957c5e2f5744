package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api"
)

// reader is a cluster with KubeVirt 1.7 and a namespace.
func reader(t testing.TB, funcs interceptor.Funcs, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kubevirtv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	kubevirt := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt",
		Name: "kubevirt"}}
	kubevirt.Status.ObservedKubeVirtVersion = "v1.7.0"
	objects = append(objects, kubevirt,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(
		funcs).Build()
}

// request creates a pod with a field unknown to this program.
func request(t testing.TB, pod *corev1.Pod) admission.Request {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), `"name":"compute"`, `"name":"compute","fromTheFuture":1`,
		1)
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "vms",
		Object: runtime.RawExtension{Raw: []byte(text)}}}
}

// patched is the pod after a response.
func patched(t testing.TB, req admission.Request, resp admission.Response) *corev1.Pod {
	t.Helper()
	text, err := json.Marshal(resp.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(req.Object.Raw)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if !strings.Contains(string(after), "fromTheFuture") {
		t.Errorf("the patch drops a field that is not known here: %s", text)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(after, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// The handler's answer equals the decision of Mutate.
func TestHandle(t *testing.T) {
	vmi := newVMI(withGPUs(1))
	h := New(Config{Reader: reader(t, interceptor.Funcs{}, vmi),
		Shim: Shim{Image: "registry.example.org/mooring-shim:v1"}})
	for name, annotations := range map[string]map[string]string{
		"lock": nil, "beside others": {"a": "b"},
		"sidecar and preStop": {api.InjectSidecarKey: "true", api.InjectPreStopKey: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			req := request(t, newPod(annotations))
			resp := h.Handle(t.Context(), req)
			if !resp.Allowed || len(resp.Warnings) > 0 {
				t.Fatalf("got %+v", resp.AdmissionResponse)
			}
			want := mutated(t, input(newPod(annotations), vmi))
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, patched(t, req, resp))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// No type of KubeVirt's API has the early fields of VEP 144.
func TestHandleFirstWords(t *testing.T) {
	vmi := newVMI()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(vmi)
	if err != nil {
		t.Fatal(err)
	}
	reserved := map[string]any{"requiresLock": "true", "value": "3Gi"}
	if err := unstructured.SetNestedMap(object, reserved, "spec", "domain", "memory",
		"reservedOverhead"); err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
		o ...client.GetOption) error {
		if u, ok := into.(*unstructured.Unstructured); ok {
			u.Object = object
			return nil
		}
		return c.Get(ctx, key, into, o...)
	}
	req := request(t, newPod(nil))
	resp := New(Config{Reader: reader(t, interceptor.Funcs{Get: get})}).Handle(t.Context(), req)
	if got := patched(t, req, resp).Annotations; got[api.ValueKey] != "3Gi" ||
		got[api.RequiresLockKey] != "true" {
		t.Errorf("got %v", got)
	}
}

func TestHandleLeavesAlone(t *testing.T) {
	vmi := newVMI(withGPUs(1))
	plain := newPod(nil)
	plain.OwnerReferences = nil
	again := newVMI(withGPUs(1))
	again.UID = "another"
	for name, c := range map[string]struct {
		pod *corev1.Pod
		vmi *kubevirtv1.VirtualMachineInstance
	}{
		"no launcher":          {plain, vmi},
		"the VM is gone":       {newPod(nil), nil},
		"the VM was made anew": {newPod(nil), again},
		"no need":              {newPod(nil), newVMI()},
	} {
		var objects []client.Object
		if c.vmi != nil {
			objects = append(objects, c.vmi)
		}
		resp := New(Config{Reader: reader(t, interceptor.Funcs{}, objects...)}).Handle(t.Context(),
			request(t, c.pod))
		if !resp.Allowed || len(resp.Patches)+len(resp.Warnings) > 0 {
			t.Errorf("%s: got %+v", name, resp)
		}
	}
}

func TestHandleNoPod(t *testing.T) {
	resp := New(Config{Reader: reader(t, interceptor.Funcs{})}).Handle(t.Context(),
		admission.Request{})
	if resp.Allowed || resp.Result.Code != 400 {
		t.Errorf("got %+v", resp)
	}
}

// failing is a reader that fails for one type.
func failing[T client.Object, L client.ObjectList](
	t *testing.T, objects ...client.Object,
) client.Reader {
	t.Helper()
	fault := errors.New("no answer")
	return reader(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object,
			o ...client.GetOption) error {
			if _, ok := into.(T); ok {
				return fault
			}
			return c.Get(ctx, key, into, o...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			o ...client.ListOption) error {
			if _, ok := list.(L); ok {
				return fault
			}
			return c.List(ctx, list, o...)
		},
	}, objects...)
}

func marked(pod *corev1.Pod) *corev1.Pod {
	pod.Labels[api.ResizedLabel] = "true"
	return pod
}

// A failed read does not delay a launcher, unless it is the target of a VM that may have been
// resized in place.
func TestHandleUnread(t *testing.T) {
	source, vmi := newSource(), newVMI(withGPUs(1))
	resized := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
	type pod = corev1.Pod
	for name, c := range map[string]struct {
		reader  client.Reader
		pod     *corev1.Pod
		allowed bool
	}{
		"VMI": {failing[*unstructured.Unstructured,
			*unstructured.UnstructuredList](t, vmi), newPod(nil), true},
		"KubeVirt": {failing[*pod, *kubevirtv1.KubeVirtList](t, vmi),
			newPod(nil), true},
		"namespace": {failing[*corev1.Namespace, *corev1.NamespaceList](t, vmi),
			newPod(nil), true},
		"launchers": {failing[*pod, *corev1.PodList](t, vmi), newTarget(nil), true},
		"launchers, with sidecar": {failing[*pod, *corev1.PodList](t, vmi),
			newTarget(map[string]string{api.InjectSidecarKey: "true"}), false},
		"VMI, of a target": {failing[*unstructured.Unstructured,
			*unstructured.UnstructuredList](t, vmi, &source), newTarget(nil), true},
		"VMI, of a resized target": {failing[*unstructured.Unstructured,
			*unstructured.UnstructuredList](t, vmi, &resized), newTarget(nil), false},
		"everything": {failing[client.Object, client.ObjectList](t), newTarget(nil), true},
		"everything, with sidecar": {failing[client.Object, client.ObjectList](t),
			newTarget(map[string]string{api.InjectSidecarKey: "true"}), false},
		"everything, with a size": {failing[client.Object, client.ObjectList](t),
			newTarget(map[string]string{api.ResizeMemoryKey: "4Gi"}), false},
		"everything, of a resized VM": {failing[client.Object, client.ObjectList](t), marked(newTarget(nil)), false},
		"namespace, of a resized VM": {failing[*corev1.Namespace, *corev1.NamespaceList](t, vmi),
			marked(newTarget(nil)), false},
	} {
		resp := New(Config{Reader: c.reader, Shim: Shim{Image: "x"}}).Handle(t.Context(),
			request(t, c.pod))
		text := strings.Join(resp.Warnings, "")
		if resp.Result != nil { // nil beside a patch
			text += resp.Result.Message
		}
		if resp.Allowed != c.allowed || !strings.Contains(text, "no answer") {
			t.Errorf("%s: got %v, %q", name, resp.Allowed, text)
		}
	}
}

// virt-controller gets the warnings, and the VM's owner reads Events. KubeVirt without a version
// is a KubeVirt that virt-operator is still installing.
func TestHandleReportsWarnings(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kubevirtv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	noVersion := fake.NewClientBuilder().WithScheme(scheme).WithObjects(newVMI(withGPUs(1)),
		&kubevirtv1.KubeVirt{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}}).Build()
	recorder := events.NewFakeRecorder(10)
	h := New(Config{Reader: noVersion, Events: recorder})
	req := request(t, newPod(nil))
	if resp := h.Handle(t.Context(), req); !resp.Allowed || len(resp.Warnings) != 1 {
		t.Fatalf("got %+v", resp.AdmissionResponse)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("got %d Events, want 1", len(recorder.Events))
	}
	event := <-recorder.Events
	for _, part := range []string{"Warning " + ReasonWarning, "leaves the pod unchanged",
		"KubeVirt kubevirt/kubevirt, status.targetKubeVirtVersion"} {
		if !strings.Contains(event, part) {
			t.Errorf("Event %q: want %q in it", event, part)
		}
	}
	req.DryRun = new(true)
	h.Handle(t.Context(), req)
	if len(recorder.Events) > 0 {
		t.Errorf("a dry run wrote an Event: %s", <-recorder.Events)
	}
}

func TestHandleTarget(t *testing.T) {
	source := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
	req := request(t, newTarget(nil))
	resp := New(Config{Reader: reader(t, interceptor.Funcs{}, newVMI(), &source)}).Handle(
		t.Context(), req)
	if diff := cmp.Diff(source.Spec.Containers[0].Resources,
		patched(t, req, resp).Spec.Containers[0].Resources); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
