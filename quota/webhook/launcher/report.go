package launcher

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/quota/webhook/observe"
)

// ReasonWarning is the reason of an Event on a VM whose launcher pod misses changes.
const ReasonWarning = "LauncherWarning"

const (
	action = "AdmitRequest"

	// maxText is the maximum length of an Event's text in bytes.
	maxText = 1024
)

// reportWarnings writes the warnings of an answer as Events on the pod's VM. virt-controller
// creates the pods, so no user reads the warnings themselves. A dry run has no side effects.
func reportWarnings(
	recorder events.EventRecorder, req admission.Request, pod *corev1.Pod, warnings []string,
) {
	vm := observe.Owner(pod)
	if recorder == nil || vm == nil || req.DryRun != nil && *req.DryRun {
		return
	}
	for _, w := range warnings {
		recorder.Eventf(vm, nil, corev1.EventTypeWarning, ReasonWarning, action, "%s",
			plaintext.Cut(w, maxText))
	}
}
