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

const elsewhere = "the pod runs on another node: following its Events, which show the plan at the start and all steps at the end\n"

// reports is an Event with what the pod had said.
func reports(t *testing.T, name string, size api.Size, r podapi.Report) corev1.Event {
	t.Helper()
	e := tells(name, reasonOf(r.State), "in words", &agentapi.DesiredSize{Generation: r.Generation, Size: size})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	e.Annotations[agentapi.ReportKey] = string(text)
	return e
}

// begun is what is said before the first step.
func begun() podapi.Report {
	return podapi.Report{Generation: 7, State: podapi.StateResizing, Plan: resized().Plan}
}

// unconfirmed is what is said of a resize that fails.
func unconfirmed() podapi.Report {
	r := failed(podapi.StateFailed)
	r.Error = "the guest does not answer" // in one line, as the agent has it
	return r
}

// Elsewhere the same is shown as on the pod's node, once, of what was asked for; of the
// rest the words.
func TestWaitShowsReports(t *testing.T) {
	const annotated, words = "vms/vfio: annotated with 4 vCPUs\n", "  in words\n"
	four, five := api.Size{VCPUs: 4}, api.Size{VCPUs: 5}
	start, done := reports(t, "a", four, begun()), reports(t, "b", four, resized())
	at := now.Local().Format("15:04:05") + "  "
	older := begun()
	older.Generation = 6
	tacit := start
	tacit.Annotations = map[string]string{agentapi.ReportKey: start.Annotations[agentapi.ReportKey]}
	whole := annotated + plan + steps + "\nnote: the balloon is empty\ndone: 4Gi of memory, 4 vCPUs (3 in use)\n"
	for name, c := range map[string]struct {
		events []corev1.Event
		want   result
	}{
		"done":                 {[]corev1.Event{start, done}, result{ExitOK, whole, elsewhere}},
		"counted":              {[]corev1.Event{start, counted(start), done}, result{ExitOK, whole, elsewhere}},
		"nothing but the end":  {[]corev1.Event{done}, result{ExitOK, whole, elsewhere}},
		"nobody knows of what": {[]corev1.Event{tacit, done}, result{ExitOK, whole, elsewhere}},
		"failed": {[]corev1.Event{start, reports(t, "b", four, unconfirmed())}, result{
			ExitFailure, annotated + plan + steps + ": not confirmed\n11:59:51     0.00s  set 2 vCPUs (rolled back)\nnote: the balloon is empty\n",
			elsewhere + "error: the pod could not resize its VM (Failed): the guest does not answer\n",
		}},
		"nothing can be read": {[]corev1.Event{reports(t, "b", api.Size{}, podapi.Report{Generation: 7, State: podapi.StateRefused, Error: "no number"})}, result{
			ExitFailure, annotated, elsewhere + "error: the pod could not resize its VM (Refused): no number\n",
		}},
		"of another size":   {[]corev1.Event{reports(t, "c", five, older), done}, result{ExitOK, strings.Replace(whole, plan, at+"ResizeStarted"+words+plan, 1), elsewhere}},
		"of an older agent": {[]corev1.Event{tells("c", agentapi.ReasonResizeStarted, "in words", nil), done}, result{ExitOK, strings.Replace(whole, plan, at+"ResizeStarted"+words+plan, 1), elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			s := startAPIServer(t)
			s.later = slices.Concat(c.events, []corev1.Event{reports(t, "last", four, podapi.Report{Generation: 9, State: podapi.StateFailed, Error: "waited for too long"})})
			got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), "resize", "--kubeconfig", s.kubeconfig, "vfio", "--wait", "--timeout", "1m", "--vcpus", "4")
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What no agent writes is not shown: there are the words.
func TestWaitDistrustsReports(t *testing.T) {
	four := api.Size{VCPUs: 4}
	good := reports(t, "a", four, resized()).Annotations[agentapi.ReportKey]
	with := func(old, by string) string { return strings.Replace(good, old, by, 1) }
	if _, ok := reportOf(&corev1.Event{Reason: "ResizeDone", ObjectMeta: reports(t, "a", four, resized()).ObjectMeta}); !ok {
		t.Fatal("the good one is not read")
	}
	for name, text := range map[string]string{
		"empty":             "",
		"nothing":           "null",
		"no report":         "[7]",
		"no JSON":           "plan 1",
		"cut":               good[:len(good)-1],
		"more after it":     good + "{}",
		"unknown field":     with("{", `{"pod":"other",`),
		"escape sequences":  with("set 4 vCPUs", `\u001b[2Jset`),
		"forged lines":      with("set 4 vCPUs", `set\nplan`),
		"hidden characters": with("set 4 vCPUs", "set\u202e4"),
		"a long line":       with("set 4 vCPUs", strings.Repeat("x", podapi.MaxLine+1)),
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
				t.Fatal("nothing is wrong with it")
			}
			e := reports(t, "a", four, resized())
			e.Annotations[agentapi.ReportKey] = text
			s := startAPIServer(t)
			s.later = []corev1.Event{e}
			got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), "resize", "--kubeconfig", s.kubeconfig, "vfio", "--wait", "--timeout", "1m", "--vcpus", "4")
			want := result{ExitOK, "vms/vfio: annotated with 4 vCPUs\n" + now.Local().Format("15:04:05") + "  ResizeDone  in words\n", elsewhere}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The answer to a dry run is no end of a resize.
func TestWaitDistrustsADryRun(t *testing.T) {
	r := unconfirmed()
	e := reports(t, "a", api.Size{VCPUs: 4}, r)
	if got, ok := reportOf(&e); !ok || got.State != r.State {
		t.Errorf("read %+v, %t", got, ok)
	}
	r.DryRun = true
	e = reports(t, "a", api.Size{VCPUs: 4}, r)
	if got, ok := reportOf(&e); ok {
		t.Errorf("read %+v, want nothing", got)
	}
}

// The annotations of Events are documented.
func TestEventAnnotationsInDocs(t *testing.T) {
	doc := readDoc(t, "docs", "how-to", "resize.md")
	for _, key := range []string{agentapi.DesiredKey, agentapi.ReportKey} {
		if !strings.Contains(doc, "`"+key+"`") {
			t.Errorf("docs/how-to/resize.md does not tell of %s", key)
		}
	}
}

// What came of something that was wanted before is no answer, also where the agent knew
// of something newer when it told it.
func TestNewsByTheReport(t *testing.T) {
	var w waiter
	begun := reports(t, "a", api.Size{VCPUs: 4}, podapi.Report{Generation: 7, State: podapi.StateResizing})
	w.history.add(&begun)
	for generation, want := range map[uint64]bool{7: false, 8: true} {
		failed := reports(t, "b", api.Size{}, podapi.Report{Generation: generation, State: podapi.StateFailed, Error: "no"})
		delete(failed.Annotations, agentapi.DesiredKey)
		if got := w.isNew(&failed); got != want {
			t.Errorf("generation %d after 7: news %t, want %t", generation, got, want)
		}
	}
}
