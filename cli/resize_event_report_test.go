package cli

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

const elsewhere = "the pod runs on another node: following its Events, which show the plan at " +
	"the start and all steps at the end\n"

// reportEvent returns an Event with the pod's report.
func reportEvent(t *testing.T, name string, size api.Size, r podapi.Report) corev1.Event {
	t.Helper()
	e := resizeEvent(name, reasonOf(r.State), "in words",
		&agentapi.DesiredSize{Generation: r.Generation, Size: size})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	e.Annotations[agentapi.ReportKey] = string(text)
	return e
}

// startReport is the pod's report before the first step.
func startReport() podapi.Report {
	return podapi.Report{Generation: 7, State: podapi.StateResizing, Plan: resized().Plan}
}

// failureReport is the report of a failed resize.
func failureReport() podapi.Report {
	r := failed(podapi.StateFailed)
	r.Error = "the guest does not answer" // the agent replaces the control character
	return r
}

// For a pod on another node, the output has the same plan and steps once, from the reports in
// Events. For Events about other sizes it has only their text.
func TestWaitShowsReports(t *testing.T) {
	const annotated, words = "vms/vfio: annotated with 4 vCPUs\n", "  in words\n"
	four, five := api.Size{VCPUs: 4}, api.Size{VCPUs: 5}
	start, done := reportEvent(t, "a", four, startReport()), reportEvent(t, "b", four, resized())
	at := now.Local().Format("15:04:05") + "  "
	older := startReport()
	older.Generation = 6
	withoutSize := start
	withoutSize.Annotations = map[string]string{
		agentapi.ReportKey: start.Annotations[agentapi.ReportKey]}
	complete := annotated + plan + steps + "\nnote: the balloon is empty\ndone: 4Gi of memory, 4 " +
		"vCPUs (3 in use)\n"
	for name, c := range map[string]struct {
		events []corev1.Event
		want   result
	}{
		"done": {[]corev1.Event{start, done}, result{ExitOK, complete, elsewhere}},
		"repeated start": {[]corev1.Event{start, repeated(start), done},
			result{ExitOK, complete, elsewhere}},
		"only the end": {[]corev1.Event{done}, result{ExitOK, complete, elsewhere}},
		"start without size": {[]corev1.Event{withoutSize, done},
			result{ExitOK, complete, elsewhere}},
		"failed": {[]corev1.Event{start, reportEvent(t, "b", four, failureReport())}, result{
			ExitFailure, annotated + plan + steps + ": not confirmed\n11:59:51     0.00s  set 2 " +
				"vCPUs (rolled back)\nnote: the balloon is empty\n",
			elsewhere + "error: the pod could not resize its VM (Failed): the guest does not " +
				"answer\n",
		}},
		"invalid annotations": {
			[]corev1.Event{
				reportEvent(t, "b", api.Size{}, podapi.Report{Generation: 7,
					State: podapi.StateRefused, Error: "no number"})}, result{
				ExitFailure, annotated, elsewhere + "error: the pod could not resize its VM " +
					"(Refused): no number\n",
			}},
		"another size": {[]corev1.Event{reportEvent(t, "c", five, older), done},
			result{ExitOK, strings.Replace(complete, plan, at+"ResizeStarted"+words+plan, 1),
				elsewhere}},
		"older agent": {
			[]corev1.Event{resizeEvent("c", agentapi.ReasonResizeStarted, "in words", nil), done},
			result{ExitOK, strings.Replace(complete, plan, at+"ResizeStarted"+words+plan, 1),
				elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startAPIServer(t)
			s.watched = slices.Concat(c.events,
				[]corev1.Event{
					reportEvent(t, "last", four, podapi.Report{Generation: 9,
						State: podapi.StateFailed, Error: "the wait should have ended"})})
			got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), "resize", "--kubeconfig",
				s.kubeconfig, "vfio", "--wait", "--timeout", "1m", "--vcpus", "4")
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The command shows only the text of an Event with an invalid report.
func TestWaitIgnoresInvalidReports(t *testing.T) {
	four := api.Size{VCPUs: 4}
	good := reportEvent(t, "a", four, resized()).Annotations[agentapi.ReportKey]
	with := func(old, by string) string { return strings.Replace(good, old, by, 1) }
	if _, ok := reportOf(&corev1.Event{Reason: "ResizeDone",
		ObjectMeta: reportEvent(t, "a", four, resized()).ObjectMeta}); !ok {
		t.Fatal("reportOf rejects the valid report")
	}
	for name, text := range map[string]string{
		"empty":             "",
		"null":              "null",
		"no report":         "[7]",
		"no JSON":           "plan 1",
		"cut":               good[:len(good)-1],
		"trailing text":     good + "{}",
		"unknown field":     with("{", `{"pod":"other",`),
		"escape sequences":  with("set 4 vCPUs", `\u001b[2Jset`),
		"forged lines":      with("set 4 vCPUs", `set\nplan`),
		"hidden characters": with("set 4 vCPUs", "set\u202e4"),
		"long line":         with("set 4 vCPUs", strings.Repeat("x", podapi.MaxLine+1)),
		"many lines":        with(`"set 4 vCPUs",`, strings.Repeat(`"x",`, podapi.MaxLines)),
		"large":             good + strings.Repeat(" ", agentapi.MaxEventReport),
		"deep":              strings.Repeat("[", agentapi.MaxEventReport),
		"another state":     with(`"Done"`, `"Failed"`),
		"no state":          with(`"Done"`, `"Over"`),
		"no end":            with(`"Done"`, `"Idle"`),
		"another resize":    with(`"generation":7`, `"generation":8`),
		"negative":          with(`"generation":7`, `"generation":-7`),
	} {
		t.Run(name, func(t *testing.T) {
			if text == good {
				t.Fatal("the text equals the valid report")
			}
			e := reportEvent(t, "a", four, resized())
			e.Annotations[agentapi.ReportKey] = text
			s := startAPIServer(t)
			s.watched = []corev1.Event{e}
			got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), "resize", "--kubeconfig",
				s.kubeconfig, "vfio", "--wait", "--timeout", "1m", "--vcpus", "4")
			want := result{ExitOK, "vms/vfio: annotated with 4 vCPUs\n" +
				now.Local().Format("15:04:05") + "  ResizeDone  in words\n", elsewhere}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWaitIgnoresDryRunReports(t *testing.T) {
	r := failureReport()
	e := reportEvent(t, "a", api.Size{VCPUs: 4}, r)
	if got, ok := reportOf(&e); !ok || got.State != r.State {
		t.Errorf("reportOf = %+v, %t, want the report", got, ok)
	}
	r.DryRun = true
	e = reportEvent(t, "a", api.Size{VCPUs: 4}, r)
	if got, ok := reportOf(&e); ok {
		t.Errorf("reportOf = %+v, want none for a dry run", got)
	}
}

// The annotations of Events are documented.
func TestEventAnnotationsInDocs(t *testing.T) {
	doc := readDoc(t, "docs", "how-to", "resize.md")
	for _, key := range []string{agentapi.DesiredKey, agentapi.ReportKey} {
		if !strings.Contains(doc, "`"+key+"`") {
			t.Errorf("docs/how-to/resize.md lacks %s", key)
		}
	}
}

// isNew goes by the generation of the report. An Event of an earlier generation is not new, also
// without a size annotation.
func TestNewEventByReport(t *testing.T) {
	var w waiter
	started := reportEvent(t, "a", api.Size{VCPUs: 4},
		podapi.Report{Generation: 7, State: podapi.StateResizing})
	w.history.add(&started)
	for generation, want := range map[uint64]bool{7: false, 8: true} {
		failed := reportEvent(t, "b", api.Size{},
			podapi.Report{Generation: generation, State: podapi.StateFailed, Error: "no"})
		delete(failed.Annotations, agentapi.DesiredKey)
		if got := w.isNew(&failed); got != want {
			t.Errorf("generation %d after 7: isNew = %t, want %t", generation, got, want)
		}
	}
}
