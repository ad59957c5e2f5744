package deploy

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api"
	kubetest "github.com/mooring-vm/mooring/integration/kube"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

const vmSizes = "mooring-vm-sizes"

// vmDefinition is a CRD of VirtualMachines without KubeVirt's schema.
const vmDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: virtualmachines.kubevirt.io}
spec:
  group: kubevirt.io
  scope: Namespaced
  names: {kind: VirtualMachine, plural: virtualmachines}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// sizesTest is an API server with the policy for sizes of VMs. It has no KubeVirt.
type sizesTest struct {
	client.Client
	controller client.Client // a privileged client with the name of mooring-controller
	namespace  string
}

func startSizes(t *testing.T) *sizesTest {
	t.Helper()
	plane := kubetest.Start(t)
	objects := apply(t, plane, vmDefinition)
	for document := range strings.SplitSeq(read(t, "../../deploy/kubernetes/controller-role.yaml"),
		"\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			t.Fatal(err)
		}
		if o.GetName() == vmSizes {
			objects = append(objects, apply(t, plane, document)...)
		}
	}
	clientset, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	controller := rest.CopyConfig(plane.Config())
	controller.Impersonate = rest.ImpersonationConfig{Groups: []string{"system:masters"},
		UserName: "system:serviceaccount:mooring-system:mooring-controller"}
	s := &sizesTest{Client: clientFor(t, plane.Config()), controller: clientFor(t, controller),
		namespace: kubetest.Namespace(t, clientset)}
	t.Cleanup(func() { // other tests share the API server
		for _, o := range slices.Backward(objects) {
			if err := client.IgnoreNotFound(s.Delete(context.Background(), o)); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// vm creates a VM with 1Gi and 2 vCPUs, with or without an instance.
func (s *sizesTest) vm(
	t *testing.T, name string, running bool, annotations map[string]string,
) *kubevirtv1.VirtualMachine {
	t.Helper()
	vmi := kubevirttest.NewVMI(s.namespace, name, kubevirttest.Size{Cores: 2, Memory: "1Gi"})
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: vmi.ObjectMeta,
		Spec: kubevirtv1.VirtualMachineSpec{Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{
			Spec: vmi.Spec}}}
	vm.Annotations = annotations
	eventually(t, "the VM", func() error { return s.Create(t.Context(), vm) })
	vm.Status.Created = running
	if err := s.Status().Update(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

// check patches a VM in a dry run. want are parts of the refusal; none: the patch passes.
func (s *sizesTest) check(
	t *testing.T, vm *kubevirtv1.VirtualMachine, patch string, want ...string,
) {
	t.Helper()
	err := s.Patch(t.Context(), vm.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(patch)), client.DryRunAll)
	if len(want) > 0 {
		wantRefused(t, patch, err, append(want, vmSizes)...)
	} else if err != nil {
		t.Errorf("%s: %v", patch, err)
	}
}

// await returns when the API server knows the policy.
func (s *sizesTest) await(t *testing.T) {
	t.Helper()
	probe := s.vm(t, "probe", true, map[string]string{api.ResizeMemoryKey: "3Gi"})
	eventually(t, "the policy", func() error {
		return checkRefusedBy(vmSizes, s.Patch(t.Context(), probe.DeepCopy(),
			client.RawPatch(types.MergePatchType, []byte(memoryEdit("2Gi"))), client.DryRunAll))
	})
}

// TestSizeHasOneOwner: KubeVirt's live update of a dimension would compute its growth from a size
// that Mooring has changed.
func TestSizeHasOneOwner(t *testing.T) {
	s := startSizes(t)
	s.await(t)
	t.Run("template", s.testTemplate)
	t.Run("instance type", s.testInstanceType)
	t.Run("status", s.testStatus)
}

// Without the status, the policy would not know the size that a VM keeps. So users may not remove
// the status together with the size, and edit the template afterwards.
func (s *sizesTest) testStatus(t *testing.T) {
	shrunk := status(api.ResizeStatus{Desired: api.ResizeAmounts{Memory: "1Gi"},
		Reason: api.ResizeDone})[api.ResizeStatusKey]
	forged, err := json.Marshal(shrunk)
	if err != nil {
		t.Fatal(err)
	}
	both := fmt.Sprintf(`{"metadata": {"annotations": {%q: null, %q: null}}}`, api.ResizeMemoryKey,
		api.ResizeStatusKey)
	all := fmt.Sprintf(`{"metadata": {"annotations": null}, %s`, memoryEdit("1Gi")[1:])
	for name, annotations := range map[string]map[string]string{
		"seen": status(api.ResizeStatus{Desired: api.ResizeAmounts{Memory: "3Gi"},
			Reason: api.ResizeDone}, api.ResizeMemoryKey, "3Gi"),
		"kept-size": status(api.ResizeStatus{Kept: api.ResizeAmounts{Memory: "3Gi"},
			Reason: api.ResizeKept}),
	} {
		running, stopped := s.vm(t, name, true, annotations), s.vm(t, name+"-off", false, annotations)
		for _, patch := range []string{both, all, with(`{}`, api.ResizeStatusKey, `null`),
			with(`{}`, api.ResizeStatusKey, string(forged))} {
			s.check(t, running, patch, "only mooring-controller", api.ResizeStatusKey)
			s.check(t, stopped, patch)
			s.asController().check(t, running, patch)
		}
		s.check(t, running, with(`{}`, api.ResizeMemoryKey, `null`))
	}
	s.check(t, s.vm(t, "without-status", true, nil), with(`{}`, api.ResizeStatusKey, string(forged)),
		"only mooring-controller")
}

// asController returns the test with a client of the controller's name.
func (s *sizesTest) asController() *sizesTest {
	return &sizesTest{Client: s.controller, namespace: s.namespace}
}

func (s *sizesTest) testTemplate(t *testing.T) {
	const byAnnotation = "is 3Gi by annotation " + api.ResizeMemoryKey
	for name, tt := range map[string]struct {
		annotations map[string]string
		refused     map[string]string // part of the refusal by patch
		passes      []string
	}{
		"grown": {
			annotations: map[string]string{api.ResizeMemoryKey: "3Gi"},
			refused: map[string]string{
				memoryEdit("2Gi"): "kubectl -n " + s.namespace +
					" annotate vm grown --overwrite " + api.ResizeMemoryKey + "=1Gi",
				memoryEdit("3Gi"): byAnnotation, // a growth of zero
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `null`):             byAnnotation,
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `"2Gi"`):            byAnnotation,
				`{"spec": {"template": {"spec": {"domain": {"memory": null}}}}}`: byAnnotation,
			},
			passes: []string{memoryEdit("1024Mi"), socketsEdit(2),
				`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": 1073741824}}}}}}`,
				with(`{}`, api.ResizeMemoryKey, `"2Gi"`), with(`{}`, api.ResizeMemoryKey, `null`),
				`{"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}`,
				`{"metadata": {"finalizers": ["a.test/b"]}}`},
		},
		"same": {
			annotations: map[string]string{api.ResizeMemoryKey: "1048576Ki"},
			refused:     map[string]string{memoryEdit("2Gi"): api.ResizeMemoryKey},
			passes: []string{with(memoryEdit("2Gi"), api.ResizeMemoryKey, `"2Gi"`),
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `null`)},
		},
		"unreadable": {
			annotations: map[string]string{api.ResizeMemoryKey: "much"},
			refused:     map[string]string{memoryEdit("2Gi"): "is much by annotation"},
		},
		"unsized": {
			refused: map[string]string{
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `"3Gi"`): byAnnotation},
			passes: []string{memoryEdit("2Gi"), socketsEdit(2),
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `"2Gi"`),
				with(socketsEdit(2), api.VCPUsKey, `"4"`)},
		},
		"plugged": {
			annotations: map[string]string{api.VCPUsKey: "4"},
			refused: map[string]string{socketsEdit(3): api.VCPUsKey + "=2",
				socketsEdit(2): "is 4 by annotation"},
			passes: []string{memoryEdit("2Gi"), with(`{}`, api.VCPUsKey, `"6"`)},
		},
		"removed": {
			annotations: status(api.ResizeStatus{Desired: api.ResizeAmounts{Memory: "3Gi"},
				Reason: api.ResizeDone}),
			refused: map[string]string{memoryEdit("2Gi"): byAnnotation,
				memoryEdit("3Gi"): byAnnotation,
				with(memoryEdit("3Gi"), api.ResizeMemoryKey, `"3Gi"`): byAnnotation,
				with(memoryEdit("2Gi"), api.ResizeStatusKey, `null`):  byAnnotation},
			passes: []string{memoryEdit("1024Mi"), socketsEdit(2),
				with(`{}`, api.ResizeMemoryKey, `"1Gi"`)},
		},
		"kept": {
			annotations: status(api.ResizeStatus{Desired: api.ResizeAmounts{VCPUs: 2},
				Reason: api.ResizeDone, Kept: api.ResizeAmounts{Memory: "3Gi"}}),
			refused: map[string]string{memoryEdit("2Gi"): byAnnotation},
			passes:  []string{socketsEdit(2)},
		},
		"plugged-removed": {
			annotations: status(api.ResizeStatus{Desired: api.ResizeAmounts{VCPUs: 4},
				Actual: &api.ResizeAmounts{VCPUs: 4, Memory: "1Gi"}, Reason: api.ResizeDone}),
			refused: map[string]string{socketsEdit(2): "is 4 by annotation"},
			passes:  []string{memoryEdit("2Gi")},
		},
		"shrinking": {
			annotations: status(api.ResizeStatus{Desired: api.ResizeAmounts{Memory: "1Gi"},
				Reason: api.ResizeUnderWay}, api.ResizeMemoryKey, "1Gi"),
			refused: map[string]string{
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `null`): "wait for the reason Resized"},
		},
		"not-seen": {
			annotations: status(api.ResizeStatus{Desired: api.ResizeAmounts{Memory: "3Gi"},
				Reason: api.ResizeDone}, api.ResizeMemoryKey, "1Gi"),
			refused: map[string]string{
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `null`): "wait for the reason Resized"},
		},
		"shrunk": {
			annotations: status(api.ResizeStatus{Desired: api.ResizeAmounts{Memory: "1Gi"},
				Reason: api.ResizeDone}, api.ResizeMemoryKey, "1024Mi"),
			passes: []string{with(memoryEdit("2Gi"), api.ResizeMemoryKey, `null`),
				with(memoryEdit("2Gi"), api.ResizeMemoryKey, `"2Gi"`)},
		},
	} {
		running := s.vm(t, name, true, tt.annotations)
		stopped := s.vm(t, name+"-stopped", false, tt.annotations)
		for patch, part := range tt.refused {
			s.check(t, running, patch, part)
			s.check(t, stopped, patch) // for example a restore
		}
		for _, patch := range tt.passes {
			s.check(t, running, patch)
		}
	}
}

// A VM does not show the size of its instance type.
func (s *sizesTest) testInstanceType(t *testing.T) {
	const large = `{"spec": {"instancetype": {"name": "large"}}}`
	s.check(t, s.vm(t, "unsized-type", true, nil), large)
	vm := s.vm(t, "sized-type", true, map[string]string{api.VCPUsKey: "4"})
	s.check(t, vm, large, "spec.instancetype")
	s.check(t, vm, with(large, api.VCPUsKey, `null`), "spec.instancetype")
	s.check(t, s.vm(t, "stopped-type", false, vm.Annotations), large)
	s.check(t, s.vm(t, "removed-type", true, status(api.ResizeStatus{
		Desired: api.ResizeAmounts{VCPUs: 4}, Reason: api.ResizeDone})), large, "spec.instancetype")
}

// status returns annotations with a status, and others by key and value.
func status(s api.ResizeStatus, others ...string) map[string]string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // only texts and numbers
	}
	all := map[string]string{api.ResizeStatusKey: string(text)}
	for i := 0; i < len(others); i += 2 {
		all[others[i]] = others[i+1]
	}
	return all
}

func memoryEdit(guest string) string {
	return fmt.Sprintf(`{"spec": {"template": {"spec": {"domain": {"memory": {"guest": %q}}}}}}`,
		guest)
}

func socketsEdit(n int) string {
	return fmt.Sprintf(`{"spec": {"template": {"spec": {"domain": {"cpu": {"sockets": %d}}}}}}`, n)
}

// with adds an annotation to a merge patch. The value is JSON.
func with(patch, key, value string) string {
	metadata := fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}`, key, value)
	if patch == `{}` {
		return metadata + "}"
	}
	return metadata + ", " + patch[1:]
}
