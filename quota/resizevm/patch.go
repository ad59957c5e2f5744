package resizevm

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// resourcesPatch sets the resources of the launcher container of the pod with this UID.
func resourcesPatch(uid types.UID, resources corev1.ResourceRequirements) client.Patch {
	return rawPatch(types.StrategicMergePatchType, map[string]any{
		"metadata": map[string]any{"uid": uid},
		"spec": map[string]any{"containers": []any{map[string]any{"name": compute,
			"resources": map[string]any{"requests": resources.Requests,
				"limits": resources.Limits}}}},
	})
}

// annotationsPatch sets and removes annotations of the object with this UID.
func annotationsPatch(uid types.UID, annotations map[string]*string) client.Patch {
	return rawPatch(types.MergePatchType,
		map[string]any{"metadata": map[string]any{"uid": uid, "annotations": annotations}})
}

func rawPatch(kind types.PatchType, content any) client.Patch {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // only strings and quantities
	}
	return client.RawPatch(kind, text)
}
