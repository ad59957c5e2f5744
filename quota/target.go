package quota

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// TargetAnnotation of a reservation holds the charge of the target pod as recorded by the admission
// webhook: a [v1alpha1.ReservedPod] in JSON. Only admission gets to see a pod rejected by a quota.
// The annotation counts only while the migration's condition reports a rejection.
const TargetAnnotation = "target.quota" + api.Suffix

// Rendered returns the target pod recorded by the admission webhook, or nil. The error is an
// [*api.InvalidError].
func Rendered(r *v1alpha1.MigrationReservation) (*v1alpha1.ReservedPod, error) {
	text, ok := r.Annotations[TargetAnnotation]
	if !ok {
		return nil, nil
	}
	pod := &v1alpha1.ReservedPod{}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(pod); err != nil {
		return nil, &api.InvalidError{
			Key: TargetAnnotation, Value: text,
			Allowed: fmt.Sprintf("want a pod as in spec.pods: %v", err),
		}
	}
	if why := checkTarget(pod); why != "" {
		return nil, &api.InvalidError{Key: TargetAnnotation, Value: text, Allowed: why}
	}
	return pod, nil
}

// FormatRendered returns the value of [TargetAnnotation] for a target pod.
func FormatRendered(pod v1alpha1.ReservedPod) string {
	text, _ := json.Marshal(pod) // quantities and strings: cannot fail
	return string(text)
}

func checkTarget(pod *v1alpha1.ReservedPod) string {
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
