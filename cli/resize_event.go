package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// resizeHistory holds the Events about a pod's resizes so far.
type resizeHistory struct {
	events      map[types.UID]bool
	generations map[uint64]bool
}

func (t *resizeHistory) add(e *corev1.Event) {
	if t.events == nil {
		t.events, t.generations = map[types.UID]bool{}, map[uint64]bool{}
	}
	t.events[e.UID] = true
	if generation, ok := generationOf(e); ok {
		t.generations[generation] = true
	}
}

// generationOf returns the generation of the resize that an Event is about.
func generationOf(e *corev1.Event) (generation uint64, ok bool) {
	if about, ok := sizeOf(e); ok {
		return about.Generation, true
	}
	report, ok := reportOf(e)
	return report.Generation, ok
}

// sizeOf returns the desired size that an Event is about. ok is false if the agent did not know it,
// or is older.
func sizeOf(e *corev1.Event) (about agentapi.DesiredSize, ok bool) {
	err := json.Unmarshal([]byte(e.Annotations[agentapi.DesiredKey]), &about)
	return about, err == nil
}

// reportOf returns the pod's report in an Event. ok is false for an older agent. The annotation is
// untrusted: it must parse strictly and match the Event's generation and outcome.
func reportOf(e *corev1.Event) (report podapi.Report, ok bool) {
	text := e.Annotations[agentapi.ReportKey]
	if text == "" || len(text) > agentapi.MaxEventReport {
		return podapi.Report{}, false
	}
	report, err := podapi.Decode[podapi.Report](strings.NewReader(text))
	if err != nil || report.DryRun || reasonOf(report.State) != agentapi.Reason(e.Reason) {
		return podapi.Report{}, false
	}
	if about, known := sizeOf(e); known && about.Generation != report.Generation {
		return podapi.Report{}, false
	}
	return report, true
}

// reasonOf returns the reason of Events about a state; empty: none.
func reasonOf(state podapi.State) agentapi.Reason {
	switch state {
	case podapi.StateResizing:
		return agentapi.ReasonResizeStarted
	case podapi.StateDone:
		return agentapi.ReasonResizeDone
	case podapi.StateFailed, podapi.StateRefused:
		return agentapi.ReasonResizeFailed
	}
	return ""
}

// isNew reports whether an Event can be about this request. An Event from before the patch may be
// counted again later; it is about an earlier request unless both ask for the same size.
func (w *waiter) isNew(e *corev1.Event) bool {
	if generation, ok := generationOf(e); ok && w.history.generations[generation] {
		return w.alreadyRequested
	}
	return w.alreadyRequested || !w.history.events[e.UID]
}

// matchesSize reports whether an Event is about the complete requested size, or about unreadable
// annotations. For an Event without a size annotation only its text counts, which does not show CPU
// bandwidth and shares.
func (w *waiter) matchesSize(e *corev1.Event) bool {
	reason := agentapi.Reason(e.Reason)
	if about, ok := sizeOf(e); ok {
		return covers(about.Size, w.size) || reason == agentapi.ReasonResizeFailed &&
			about.Size == (api.Size{})
	}
	if reason != agentapi.ReasonResizeDone {
		return true
	}
	return w.size.CPUQuota == (api.CPUQuota{}) && w.size.CPUShares == 0 &&
		(w.size.Memory == 0 ||
			strings.Contains(e.Message, ": "+podapi.Amount(w.size.Memory).String()+", ")) &&
		(w.size.VCPUs == 0 || strings.Contains(e.Message, fmt.Sprintf(", %d vCPUs", w.size.VCPUs)))
}

// covers reports whether a size has all requested dimensions.
func covers(size, asked api.Size) bool {
	return (asked.VCPUs == 0 || asked.VCPUs == size.VCPUs) &&
		(asked.Memory == 0 || asked.Memory == size.Memory) &&
		(asked.CPUQuota == (api.CPUQuota{}) || asked.CPUQuota == size.CPUQuota) &&
		(asked.CPUShares == 0 || asked.CPUShares == size.CPUShares)
}
