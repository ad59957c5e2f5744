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

// Report implements [Pod]. It is what the pod says: it is shown, left in the pod's
// directory, and told as Events when the state changes. Nothing is decided by it. The
// answer to a dry run is only shown, beside what was reported last.
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
	p.node.Registry.Update(l.Container.ID, func(now *registry.Launcher) { now.Resize = said })
	p.recordEvent(l, report)
	return p.writeReport(report)
}

// leave writes the report where the pod can read it.
func (p *pod) writeReport(report podapi.Report) error {
	if p.node.Reports == nil {
		return nil
	}
	data, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report of a pod: %w", err)
	}
	if len(data) > podapi.MaxReport {
		return refusal(podapi.CodeTooLarge, "the report has %d bytes when it is written: want at most %d", len(data), podapi.MaxReport)
	}
	return p.node.Reports.WriteReport(p.uid, data)
}

// tell tells of a state that was not reported before, or of what came of something else
// that was wanted, unless there was much to tell.
func (p *pod) recordEvent(l registry.Launcher, report podapi.Report) {
	p.mu.Lock()
	news := report.State != p.reportedState || report.Generation > p.reportedGeneration && report.State != podapi.StateResizing
	p.reportedState, p.reportedGeneration = report.State, max(p.reportedGeneration, report.Generation)
	about := p.desiredSize(report.Generation)
	p.mu.Unlock()
	event, ok := eventOf(report)
	if !news || !ok || !p.eventRate.Allow() {
		return
	}
	said := report.FitInto(agentapi.MaxEventReport)
	event.Time, event.Pod, event.Container, event.Desired, event.Report = time.Now(), l.Pod, l.Container, about, &said
	p.node.Recorder.Record(event)
}

// about is what was wanted with that generation; nil: it was told before the agent was
// started again, or something else is wanted by now. It is called with mu locked.
func (p *pod) desiredSize(generation uint64) *agentapi.DesiredSize {
	if generation == 0 || generation != p.desired.Generation {
		return nil
	}
	return &agentapi.DesiredSize{Generation: generation, Size: p.desired.Size}
}

// eventOf is what a report is worth telling; ok is false for nothing.
func eventOf(r podapi.Report) (event agentapi.Event, ok bool) {
	switch r.State {
	case podapi.StateResizing:
		text := fmt.Sprintf("the pod says that its VM is being resized, in %d steps", len(r.Plan))
		return agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonResizeStarted, Message: text}, true
	case podapi.StateDone:
		text := "the pod says that its VM is as it is wanted"
		if r.Actual != nil {
			text += ": " + r.Actual.String()
		}
		return agentapi.Event{Type: agentapi.Normal, Reason: agentapi.ReasonResizeDone, Message: text}, true
	case podapi.StateFailed, podapi.StateRefused:
		text := "the pod says that its VM could not be resized: " + oneLine(r.Error)
		return agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonResizeFailed, Message: text}, true
	}
	return agentapi.Event{}, false
}

// oneLine makes an error text of the pod printable and short enough for an Event.
func oneLine(text string) string {
	return plaintext.Cut(plaintext.Printable(plaintext.OneLine(text), ' '), podapi.MaxLine)
}
