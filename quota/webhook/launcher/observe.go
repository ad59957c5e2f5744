package launcher

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// observe reports the answer of mode enforce, and lets the pod pass unchanged. It keeps the
// warnings of the answer.
func (h *handler) observe(
	req admission.Request, pod *corev1.Pod, enforced admission.Response,
) admission.Response {
	on := observe.Owner(pod)
	switch {
	case !enforced.Allowed:
		return h.Observe.Refusal(req, on, enforced.Result.Message)
	case len(enforced.Patches) > 0:
		return h.Observe.Change(req, on, describe(enforced)).
			WithWarnings(enforced.Warnings...)
	}
	return enforced
}

// unescape decodes a reference token of a JSON pointer (RFC 6901).
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// describe lists the changes of a pod.
func describe(resp admission.Response) string {
	all := make([]string, 0, len(resp.Patches))
	for _, p := range resp.Patches {
		field := p.Operation + " " + unescape.Replace(strings.TrimPrefix(p.Path, "/"))
		all = append(all, field+describeValue(p.Value))
	}
	return strings.Join(all, "; ")
}

// describeValue returns the name of a container, or a scalar; empty for other values.
func describeValue(value any) string {
	switch value := value.(type) {
	case nil, []any:
		return ""
	case map[string]any:
		if name, ok := value["name"]; ok {
			return fmt.Sprintf(" %v", name)
		}
		return ""
	}
	return fmt.Sprintf("=%v", value)
}
