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

// told is what Events have told of a pod's resizes.
type told struct {
	events      map[types.UID]bool
	generations map[uint64]bool
}

func (t *told) note(e *corev1.Event) {
	if t.events == nil {
		t.events, t.generations = map[types.UID]bool{}, map[uint64]bool{}
	}
	t.events[e.UID] = true
	if generation, ok := generationOf(e); ok {
		t.generations[generation] = true
	}
}

// generationOf is what an Event is about, also where something else was wanted by the time
// that the agent told it.
func generationOf(e *corev1.Event) (generation uint64, ok bool) {
	if about, ok := aboutOf(e); ok {
		return about.Generation, true
	}
	report, ok := reportOf(e)
	return report.Generation, ok
}

// aboutOf is what the resize was asked for that an Event is about. ok is false where the
// agent did not know, or is older.
func aboutOf(e *corev1.Event) (about agentapi.DesiredSize, ok bool) {
	err := json.Unmarshal([]byte(e.Annotations[agentapi.DesiredKey]), &about)
	return about, err == nil
}

// reportOf is what the pod had said when an Event was told. ok is false where the agent is
// older, and for what no agent writes: it is read strictly, must be about what the Event is
// about, and so cannot tell of another end than the Event does.
func reportOf(e *corev1.Event) (report podapi.Report, ok bool) {
	text := e.Annotations[agentapi.ReportKey]
	if text == "" || len(text) > agentapi.MaxEventReport {
		return podapi.Report{}, false
	}
	report, err := podapi.Decode[podapi.Report](strings.NewReader(text))
	if err != nil || report.DryRun || reasonOf(report.State) != agentapi.Reason(e.Reason) {
		return podapi.Report{}, false
	}
	if about, known := aboutOf(e); known && about.Generation != report.Generation {
		return podapi.Report{}, false
	}
	return report, true
}

// reasonOf is that of the Events that tell of a state; empty: none do.
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

// isNews reports whether an Event can be about what was asked for. One that was there when
// the pod was patched, and comes again because it is counted, is about what was asked for
// before, unless that is the same.
func (w *waiter) isNews(e *corev1.Event) bool {
	if generation, ok := generationOf(e); ok && w.before.generations[generation] {
		return w.same
	}
	return w.same || !w.before.events[e.UID]
}

// concerns reports whether an Event is about all that was asked for, or says that nothing
// can be read of that. One that does not say what it is about has but its words, and
// nothing of CPU bandwidth and shares in them.
func (w *waiter) concerns(e *corev1.Event) bool {
	reason := agentapi.Reason(e.Reason)
	if about, ok := aboutOf(e); ok {
		return covers(about.Size, w.size) || reason == agentapi.ReasonResizeFailed && about.Size == (api.Size{})
	}
	if reason != agentapi.ReasonResizeDone {
		return true
	}
	return w.size.CPUQuota == (api.CPUQuota{}) && w.size.CPUShares == 0 &&
		(w.size.Memory == 0 || strings.Contains(e.Message, ": "+podapi.Amount(w.size.Memory).String()+", ")) &&
		(w.size.VCPUs == 0 || strings.Contains(e.Message, fmt.Sprintf(", %d vCPUs", w.size.VCPUs)))
}

// covers reports whether a size has all that is asked for.
func covers(size, asked api.Size) bool {
	return (asked.VCPUs == 0 || asked.VCPUs == size.VCPUs) && (asked.Memory == 0 || asked.Memory == size.Memory) &&
		(asked.CPUQuota == (api.CPUQuota{}) || asked.CPUQuota == size.CPUQuota) && (asked.CPUShares == 0 || asked.CPUShares == size.CPUShares)
}
