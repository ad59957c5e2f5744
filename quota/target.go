package quota

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// TargetAnnotation of a reservation is what the target pod is charged, as an admission
// webhook has seen it: a [v1alpha1.ReservedPod] as JSON. A pod that a quota rejects is seen
// by nobody else. It counts only while the migration has the condition that says so.
const TargetAnnotation = "target.quota" + api.Suffix

// Rendered returns the target pod that an admission webhook has seen, or nil. The error is
// an [*api.InvalidError].
func Rendered(r *v1alpha1.MigrationReservation) (*v1alpha1.ReservedPod, error) {
	text, ok := r.Annotations[TargetAnnotation]
	if !ok {
		return nil, nil
	}
	pod := &v1alpha1.ReservedPod{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(pod); err != nil {
		return nil, &api.InvalidError{Key: TargetAnnotation, Value: text, Allowed: fmt.Sprintf("want a pod as in spec.pods: %v", err)}
	}
	if why := unlikely(pod); why != "" {
		return nil, &api.InvalidError{Key: TargetAnnotation, Value: text, Allowed: why}
	}
	return pod, nil
}

// FormatRendered is the value of [TargetAnnotation] for a target pod.
func FormatRendered(pod v1alpha1.ReservedPod) string {
	text, _ := json.Marshal(pod) // quantities and strings: cannot fail
	return string(text)
}

func unlikely(pod *v1alpha1.ReservedPod) string {
	if pod.Role != v1alpha1.RoleLauncher {
		return fmt.Sprintf("role %q: want %s", pod.Role, v1alpha1.RoleLauncher)
	}
	if len(pod.Charge) == 0 {
		return "charge: want at least one resource"
	}
	for name, amount := range pod.Charge {
		if amount.Sign() < 0 {
			return fmt.Sprintf("charge of %s %s: want 0 or more", name, &amount)
		}
	}
	return ""
}
