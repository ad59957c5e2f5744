package metrics

import (
	"errors"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/agent/nodehook"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/plugin"
)

var (
	_ plugin.Observer     = (*Metrics)(nil)
	_ guard.Observer      = (*Metrics)(nil)
	_ supervisor.Observer = (*Metrics)(nil)
	_ registry.Recorder   = (*Metrics)(nil)
)

// Record counts an event of the agent.
func (m *Metrics) Record(event agentapi.Event) {
	m.events.WithLabelValues(string(event.Type), string(event.Reason)).Inc()
}

// Checked counts a check of a setting by the guard. changed means that the result differs
// from the previous check.
func (m *Metrics) Checked(setting string, status agentapi.Status, changed bool) {
	m.checks.WithLabelValues(setting, string(status)).Inc()
	if changed {
		m.changes.WithLabelValues(setting, string(status)).Inc()
	}
}

// CheckDropped counts a check that the guard postponed.
func (m *Metrics) CheckDropped() {
	m.checksDropped.Inc()
}

// ActionDone counts an action to end a VM process, by its result.
func (m *Metrics) ActionDone(action string, err error) {
	m.vmActions.WithLabelValues(action, actionStatus(err)).Inc()
}

func actionStatus(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}

// NotificationsDropped counts an observation that did not fit into the supervisor's queue.
func (m *Metrics) NotificationsDropped() {
	m.hintsDropped.Inc()
}

// NodeHook counts a call of a node hook by its result. Hook points that the agent does not serve
// count as one, because they come from a client.
func (m *Metrics) NodeHook(hook string, err error) {
	if !slices.Contains(nodeHooks(), hook) {
		hook = "other"
	}
	m.nodeHooks.WithLabelValues(hook, actionStatus(err)).Inc()
}

func nodeHooks() []string { return []string{nodehook.PreVMStart, nodehook.PostMigrationTarget} }

// KubeEvent counts an event for Kubernetes by its outcome.
func (m *Metrics) KubeEvent(status string) {
	m.kubeEvents.WithLabelValues(status).Inc()
}

// Request counts an NRI request by its result, and observes its duration.
func (m *Metrics) Request(method string, took time.Duration, err error) {
	m.requests.WithLabelValues(method, requestStatus(err)).Inc()
	m.duration.WithLabelValues(method).Observe(took.Seconds())
}

// requestStatus distinguishes the refusal of a launcher from a failure of the agent.
func requestStatus(err error) string {
	if err == nil {
		return "ok"
	}
	if _, refused := errors.AsType[*decide.Refusal](err); refused {
		return "refused"
	}
	return "error"
}

// Decided counts a decision about the creation of a launcher container.
func (m *Metrics) Decided(outcome plugin.Outcome) {
	m.decisions.WithLabelValues(string(outcome)).Inc()
}

// Connection counts changes of the connection to the container runtime.
func (m *Metrics) Connection(status plugin.Status) {
	switch {
	case status.Phase == plugin.Synchronized:
		m.synchronized.Inc()
	case status.Phase == plugin.Disconnected && status.Err != nil:
		m.disconnects.Inc()
	}
}

// StubAbandoned counts an attempt to connect that hangs.
func (m *Metrics) StubAbandoned() {
	m.abandoned.Inc()
}
