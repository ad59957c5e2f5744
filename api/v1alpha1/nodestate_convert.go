package v1alpha1

import (
	"encoding/json"
	"fmt"
	"math"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// NodeReportOf returns the report of an agent's own state.
func NodeReportOf(n agentapi.Node) (NodeReport, error) {
	report, err := convert[NodeReport](n)
	keepSeconds(&report.NRI.Since)
	return report, err
}

// Node returns the report as the agent's socket has it.
func (r NodeReport) Node() (agentapi.Node, error) { return convert[agentapi.Node](r) }

// LauncherReportOf returns the report of a launcher. It has times in whole seconds, of the latest
// resize only sizes, state and error, and no facts, which the pod has.
func LauncherReportOf(l agentapi.Launcher) (LauncherReport, error) {
	resize := resizeReportOf(l.Resize)
	l.Resize, l.DryRun, l.Facts = nil, nil, nil
	if l.Heartbeat != nil {
		l.Heartbeat = rounded(*l.Heartbeat)
	}
	report, err := convert[LauncherReport](l)
	report.Resize = resize
	keepSeconds(&report.Since)
	keepSeconds(&report.PhaseSince)
	for i := range report.VMs {
		keepSeconds(&report.VMs[i].Since)
	}
	if report.Lease != nil {
		report.Lease.Until = report.Lease.Until.Rfc3339Copy()
	}
	return report, err
}

func resizeReportOf(r *agentapi.Resize) *ResizeReport {
	if r == nil {
		return nil
	}
	report := &ResizeReport{State: string(r.Report.State), Error: r.Report.Error,
		Reported: new(metav1.NewTime(r.Reported))}
	keepSeconds(&report.Reported)
	if w := r.Desired; w != nil {
		report.Wanted = &SizeReport{VCPUs: w.VCPUs, Memory: int64(w.Memory)}
	}
	if a := r.Report.Actual; a != nil {
		report.Actual = &SizeReport{VCPUs: a.VCPUs, Memory: int64(min(a.Memory, math.MaxInt64))}
	}
	return report
}

// Launcher returns the report as the agent's socket has it, as far as the report has it.
func (r LauncherReport) Launcher() (agentapi.Launcher, error) {
	resize := r.Resize.resize()
	r.Resize = nil
	l, err := convert[agentapi.Launcher](r)
	l.Resize = resize
	return l, err
}

// resize returns the report as the agent's socket has it. The number of vCPUs in use is unknown.
func (r *ResizeReport) resize() *agentapi.Resize {
	if r == nil {
		return nil
	}
	to := &agentapi.Resize{Report: podapi.Report{State: podapi.State(r.State), Error: r.Error}}
	if r.Reported != nil {
		to.Reported = r.Reported.UTC()
	}
	if w := r.Wanted; w != nil {
		to.Desired = &agentapi.DesiredSize{Size: api.Size{VCPUs: w.VCPUs,
			Memory: api.Bytes(w.Memory)}}
	}
	if a := r.Actual; a != nil {
		to.Report.Actual = &podapi.Actual{VCPUs: a.VCPUs, Memory: uint64(a.Memory), Online: -1}
	}
	return to
}

func rounded(h agentapi.Heartbeat) *agentapi.Heartbeat {
	h.Watchdog = math.Round(h.Watchdog)
	if h.Age != nil {
		age := math.Round(*h.Age)
		h.Age = &age
	}
	return &h
}

// keepSeconds drops the part of a time that the API server does not store, and a zero time, which
// would become null.
func keepSeconds(t **metav1.Time) {
	if (*t).IsZero() {
		*t = nil
		return
	}
	seconds := (*t).Rfc3339Copy()
	*t = &seconds
}

// convert turns one form of a report into the other. Both have the same JSON.
func convert[T any](from any) (to T, err error) {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		return to, fmt.Errorf("convert %T to %T: %w", from, to, err)
	}
	return to, nil
}
