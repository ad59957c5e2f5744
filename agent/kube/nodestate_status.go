package kube

import (
	"cmp"
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const (
	// maxLaunchersSize bounds the launchers of a NodeState as JSON. etcd refuses objects above 1.5
	// MiB.
	maxLaunchersSize = 512 << 10
	// maxText and maxNotes bound texts of one launcher: pods influence them.
	maxText  = 1024
	maxNotes = 10
	// maxDeleted bounds the reports about deleted pods. The others follow when these are gone.
	maxDeleted = 500
)

// State has the facts of a NodeState.
type State struct {
	Node      agentapi.Node
	Launchers []agentapi.Launcher
	Policy    v1alpha1.PolicyReport // outcome of the NodePolicy for this node
	NotReady  error                 // why the agent is not ready; nil: it is

	// Deleted are the reports about the pods of [PodCache.Deleted].
	Deleted []v1alpha1.DeletedPodReport
}

// status returns the status without its heartbeat.
func (s State) status() (status v1alpha1.NodeStateStatus, err error) {
	if status.Node, err = v1alpha1.NodeReportOf(s.Node); err != nil {
		return status, err
	}
	status.Policy = &s.Policy
	status.Totals = totals(s.Launchers)
	status.DeletedPods = s.Deleted[:min(len(s.Deleted), maxDeleted)]
	status.Conditions = s.conditions()
	launchers := slices.SortedFunc(slices.Values(s.Launchers), byPod)
	for i, size := 0, 0; i < len(launchers); i++ {
		report, err := v1alpha1.LauncherReportOf(bounded(launchers[i]))
		if err != nil {
			return status, err
		}
		text, err := json.Marshal(report)
		if err != nil {
			return status, err
		}
		if size += len(text); size > maxLaunchersSize {
			status.OmittedLaunchers = len(launchers) - i
			break
		}
		status.Launchers = append(status.Launchers, report)
	}
	return status, nil
}

func byPod(a, b agentapi.Launcher) int {
	return cmp.Or(
		cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name),
		a.Since.Compare(b.Since), cmp.Compare(a.Container.Name, b.Container.Name))
}

// bounded returns the launcher with shorter texts.
func bounded(l agentapi.Launcher) agentapi.Launcher {
	l.Refusal, l.Why = truncate(l.Refusal, maxText), truncate(l.Why, maxText)
	l.Settings = slices.Clone(l.Settings)
	for i := range l.Settings {
		s := &l.Settings[i]
		s.Message = truncate(s.Message, maxText)
		s.Requested = truncate(s.Requested, maxText)
	}
	l.Notes = slices.Clone(l.Notes[:min(len(l.Notes), maxNotes)])
	for i := range l.Notes {
		l.Notes[i] = truncate(l.Notes[i], maxText)
	}
	return l
}

func totals(launchers []agentapi.Launcher) (t v1alpha1.NodeTotals) {
	for i := range launchers {
		l := &launchers[i]
		switch {
		case l.State == agentapi.StateRefused:
			t.Refused++
			continue
		case l.Refusal != "":
			t.WouldRefuse++
		}
		t.Launchers++
		t.VMs += len(l.VMs)
	}
	return t
}

func (s State) conditions() []metav1.Condition {
	nri := withError(string(s.Node.NRI.State), s.Node.NRI.Error)
	return []metav1.Condition{
		condition(v1alpha1.ConditionReady, s.NotReady == nil, "Ready", "NotReady",
			errorText(s.NotReady)),
		condition(v1alpha1.ConditionRuntimeConnected,
			s.Node.NRI.State == agentapi.NRISynchronized, "Synchronized", "NotSynchronized", nri),
		condition(v1alpha1.ConditionTrackerLoaded, s.Node.Tracker.Available, "Loaded", "NotLoaded",
			s.Node.Tracker.Error),
	}
}

func condition(kind string, holds bool, yes, no, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: no,
		Message: plaintext.Cut(message, maxText)}
	if holds {
		c.Status, c.Reason = metav1.ConditionTrue, yes
	}
	return c
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func withError(state, message string) string {
	if message == "" {
		return state
	}
	return state + ": " + message
}

// facts returns the part of a status whose change is worth a write before the next heartbeat:
// without figures that change all the time.
func facts(status *v1alpha1.NodeStateStatus) *v1alpha1.NodeStateStatus {
	kept := status.DeepCopy()
	kept.HeartbeatTime = metav1.Time{}
	kept.Node.Tracker = v1alpha1.TrackerReport{Available: kept.Node.Tracker.Available}
	for i := range kept.Conditions {
		kept.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range kept.Launchers {
		l := &kept.Launchers[i]
		if l.Heartbeat != nil {
			l.Heartbeat.Age = nil
		}
		for j := range l.VMs {
			l.VMs[j].Usage = nil
		}
	}
	return kept
}
