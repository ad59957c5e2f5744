package podserver

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Report implements [Pod]. The agent shows the report, writes it into the pod's directory, and
// records an Event when the state changes. It decides nothing by it. The answer to a dry run is
// only shown, in addition to the latest report.
func (p *pod) Report(report podapi.Report) error {
	l, err := p.launcher()
	if err != nil {
		return err
	}
	said := &agentapi.Resize{Reported: time.Now(), Report: report}
	if report.DryRun {
		p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) { now.DryRun = said })
		return nil
	}
	p.mu.Lock()
	said.Desired = p.desiredSize(report.Generation)
	p.mu.Unlock()
	p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) { now.Resize = said })
	p.recordEvent(l, report)
	return p.writeReport(report)
}

// writeReport writes the report into the pod's directory.
func (p *pod) writeReport(report podapi.Report) error {
	if p.node.Reports == nil {
		return nil
	}
	data, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report of a pod: %w", err)
	}
	if len(data) > podapi.MaxReport {
		return refusal(podapi.CodeTooLarge, "the report has %d bytes as JSON: want at most %d",
			len(data), podapi.MaxReport)
	}
	return p.node.Reports.WriteReport(p.uid, data)
}

// recordEvent records an Event for a new state, and for each end of a new resize, within the rate
// limit.
func (p *pod) recordEvent(l registry.Launcher, report podapi.Report) {
	p.mu.Lock()
	news := report.State != p.reportedState || report.Generation > p.reportedGeneration &&
		report.State != podapi.StateResizing
	p.reportedState, p.reportedGeneration = report.State,
		max(p.reportedGeneration, report.Generation)
	about := p.desiredSize(report.Generation)
	p.mu.Unlock()
	event, ok := eventOf(report)
	if !news || !ok || !p.eventRate.Allow() {
		return
	}
	said := report.FitInto(agentapi.MaxEventReport)
	event.Time, event.Pod, event.Container, event.Desired, event.Report = time.Now(), l.Pod,
		l.Container, about, &said
	p.node.Recorder.Record(event)
}

// desiredSize returns the desired size of a generation. It is nil if the generation is not the
// current one of this agent. The caller holds mu.
func (p *pod) desiredSize(generation uint64) *agentapi.DesiredSize {
	if generation == 0 || generation != p.desired.Generation {
		return nil
	}
	return &agentapi.DesiredSize{Generation: generation, Size: p.desired.Size}
}

// eventOf returns the Event of a report. ok is false if its state has none.
func eventOf(r podapi.Report) (event agentapi.Event, ok bool) {
	switch r.State {
	case podapi.StateResizing:
		text := fmt.Sprintf("the pod reports a resize of its VM, in %d steps", len(r.Plan))
		return agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonResizeStarted,
			Message: text}, true
	case podapi.StateDone:
		text := "the pod reports that its VM has the desired size"
		if r.Actual != nil {
			text += ": " + r.Actual.String()
		}
		return agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonResizeDone,
			Message: text}, true
	case podapi.StateFailed, podapi.StateRefused:
		text := "the pod reports that the resize of its VM failed: " + oneLine(r.Error)
		return agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonResizeFailed,
			Message: text}, true
	}
	return agentapi.Event{}, false
}

// oneLine makes an error text of the pod printable and short enough for an Event.
func oneLine(text string) string {
	return plaintext.Cut(plaintext.Printable(plaintext.OneLine(text), ' '), podapi.MaxLine)
}
