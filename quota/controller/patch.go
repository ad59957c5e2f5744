package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

// operation is a JSON patch operation (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"` // null in a test: the field is missing
}

func jsonPatch(operations ...operation) client.Patch {
	return rawPatch(types.JSONPatchType, operations)
}

func rawPatch(kind types.PatchType, content any) client.Patch {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // only strings and quantities
	}
	return client.RawPatch(kind, text)
}

// quotaPatch is the planned write, guarded by tests of the fields it was planned from. It does not
// test the resourceVersion: kube-apiserver changes that with each pod, and write after write would
// fail. Only a write of managedFields does, which no migration waits for.
func quotaPatch(from *corev1.ResourceQuota, a quota.WriteQuota) client.Patch {
	to := a.Apply(from)
	all := []operation{
		{"test", "/metadata/uid", a.UID},
		{"test", "/metadata/annotations", orNull(from.Annotations)},
		{"test", "/spec/hard", from.Spec.Hard},
		{"add", "/metadata/annotations", orEmpty(to.Annotations)},
		{"add", "/spec/hard", to.Spec.Hard},
	}
	if a.ManagedFields == nil {
		return jsonPatch(append(ownersTests(from), all...)...)
	}
	return jsonPatch(append(all, versionTest(from),
		operation{"add", "/metadata/managedFields", to.ManagedFields})...)
}

// ownersTests tests that no manager has become an owner of limits by an apply of equal values.
// managedFields begins with the entries of applies. Updates of the status, such as with each pod,
// change only entries behind them. A quota without any entry of an update gets its first one with
// its first status.
func ownersTests(from *corev1.ResourceQuota) []operation {
	var all []operation
	for i, e := range from.ManagedFields {
		path := fmt.Sprintf("/metadata/managedFields/%d", i)
		if e.Operation != metav1.ManagedFieldsOperationApply {
			return append(all, operation{"test", path + "/operation", e.Operation})
		}
		all = append(all, operation{"test", path, e})
	}
	return append(all, versionTest(from))
}

func versionTest(from *corev1.ResourceQuota) operation {
	return operation{"test", "/metadata/resourceVersion", from.ResourceVersion}
}

func orNull(annotations map[string]string) any {
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}

func orEmpty(annotations map[string]string) map[string]string {
	if annotations == nil {
		return map[string]string{}
	}
	return annotations
}

// withoutFinalizer removes a finalizer if the object still has the UID and the finalizers of o.
func withoutFinalizer(o client.Object, finalizer string) client.Patch {
	rest := slices.DeleteFunc(slices.Clone(o.GetFinalizers()),
		func(f string) bool { return f == finalizer })
	return jsonPatch(
		operation{"test", "/metadata/uid", o.GetUID()},
		operation{"test", "/metadata/finalizers", o.GetFinalizers()},
		operation{"add", "/metadata/finalizers", rest},
	)
}

// annotationsPatch sets and removes annotations of the object with this UID.
func annotationsPatch(uid types.UID, annotations quota.Annotations) client.Patch {
	values := map[string]*string{}
	for key, value := range annotations {
		values[key] = nil
		if value != "" {
			values[key] = &value
		}
	}
	return rawPatch(types.MergePatchType,
		map[string]any{"metadata": map[string]any{"uid": uid, "annotations": values}})
}

// labelPatch sets or removes the label of a namespace with reservations.
func labelPatch(uid types.UID, reserved bool) client.Patch {
	var value any // null removes the label
	if reserved {
		value = "true"
	}
	return rawPatch(types.MergePatchType, map[string]any{"metadata": map[string]any{"uid": uid,
		"labels": map[string]any{quota.ReservedLabel: value}}})
}

// testFailed reports whether a test of a JSON patch failed. The API server reports such a patch as
// invalid without causes. An invalid object has causes.
func testFailed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}
