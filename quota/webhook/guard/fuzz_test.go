package guard_test

import (
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// FuzzHandlers: every guard answers for any object, and every refusal has a reason.
func FuzzHandlers(f *testing.F) {
	for _, o := range []client.Object{
		raised(), quiet(), namespace(manager, managed16), namespace(shareKey, "50"),
		vm(always, "4Gi"), vm(manual, "1Ki"),
		edit(vm(halted, "1Gi"), actions("Start")), made("9Gi", ""), made("9Gi", "m-db"),
		restore("VirtualMachine"),
	} {
		text := raw(f, o).Raw
		f.Add(text, text, "")
		f.Add([]byte(`{"spec":{"running":true,"template":{}}}`), text, "status")
		f.Add(text, []byte(`{"spec":{"hard":{"pods":"1"}}}`), "")
		f.Add([]byte(`{"spec":{"running":true}}`), text, "")
	}
	handlers := newWorld(f, append(migrating(),
		namespace(manager, managed16), raised(), reservation(), kubevirtObject(),
		launcher("web", "1", "1Gi"))...).handlers()
	f.Fuzz(func(t *testing.T, was, is []byte, subresource string) {
		r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "vms", SubResource: subresource,
			OldObject: runtime.RawExtension{Raw: was}, Object: runtime.RawExtension{Raw: is},
		}}
		for _, r.UserInfo.Username = range []string{eve, virtController} {
			for _, r.Operation = range []admissionv1.Operation{admissionv1.Create,
				admissionv1.Update, admissionv1.Delete} {
				judgeAll(t, handlers, r)
			}
		}
	})
}

func judgeAll(t *testing.T, handlers map[string]admission.Handler, r admission.Request) {
	t.Helper()
	for name, h := range handlers {
		if got := h.Handle(t.Context(), r); !got.Allowed && got.Result.Message == "" {
			t.Errorf("%s: refused without a reason", name)
		}
	}
}
