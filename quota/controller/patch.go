package controller

import (
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"` // null, for a test: there is none
}

func jsonPatch(operations ...operation) client.Patch {
	return rawPatch(types.JSONPatchType, operations)
}

func rawPatch(kind types.PatchType, content any) client.Patch {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // strings and quantities alone
	}
	return client.RawPatch(kind, text)
}

// quotaPatch is the write that is planned, if the quota is still that which it was planned
// from. Not by its version: kube-apiserver counts a new version with each pod, and would
// refuse one write after the other.
func quotaPatch(from *corev1.ResourceQuota, a quota.WriteQuota) client.Patch {
	to := a.Apply(from)
	return jsonPatch(
		operation{"test", "/metadata/uid", a.UID},
		operation{"test", "/metadata/annotations", orNull(from.Annotations)},
		operation{"test", "/spec/hard", from.Spec.Hard},
		operation{"add", "/metadata/annotations", orEmpty(to.Annotations)},
		operation{"add", "/spec/hard", to.Spec.Hard},
	)
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

// withoutFinalizer takes a finalizer away, if the finalizers are still those of o.
func withoutFinalizer(o client.Object, finalizer string) client.Patch {
	rest := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer })
	return jsonPatch(
		operation{"test", "/metadata/uid", o.GetUID()},
		operation{"test", "/metadata/finalizers", o.GetFinalizers()},
		operation{"add", "/metadata/finalizers", rest},
	)
}

// annotationsPatch sets and takes away annotations of the object with this UID.
func annotationsPatch(uid types.UID, annotations quota.Annotations) client.Patch {
	values := map[string]*string{}
	for key, value := range annotations {
		values[key] = nil
		if value != "" {
			values[key] = &value
		}
	}
	return rawPatch(types.MergePatchType, map[string]any{"metadata": map[string]any{"uid": uid, "annotations": values}})
}

// testFailed says whether a test of a JSON patch has failed. The API server calls such a
// patch invalid, as it does an object, for which it gives causes.
func testFailed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || len(details.Causes) == 0
}
