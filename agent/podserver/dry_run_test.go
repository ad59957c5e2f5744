package podserver_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
)

// requestDryRun requests a dry run and returns its generation as the pod reads it.
func (r *rig) requestDryRun(t *testing.T, size api.Size) uint64 {
	t.Helper()
	pods, err := r.RequestSize("vms", "pod-a", size, true)
	must(t, err)
	w, err := r.Pod("a").Desired()
	must(t, err)
	if len(pods) != 1 || w.DryRun == nil || w.DryRun.Size != size ||
		w.DryRun.Generation != pods[0].Generation {
		t.Fatalf("RequestSize: %+v, and the pod reads %+v", pods, w)
	}
	return w.DryRun.Generation
}

// Each dry run has a new generation, also for the same size. It changes no desired size, and a
// stream reports it.
func TestDryRun(t *testing.T) {
	r := newRig(t)
	size := api.Size{VCPUs: 4}
	asked, err := r.RequestSize("vms", "pod-a", size, false)
	must(t, err)
	before := r.Pod("a").Summary()
	first := r.requestDryRun(t, api.Size{VCPUs: 8})
	second := r.requestDryRun(t, api.Size{VCPUs: 8})
	if second <= first || r.Pod("a").Summary().DryRun != second || before.DryRun != 0 {
		t.Errorf("dry runs %d and %d, summaries %+v and %+v", first, second, before,
			r.Pod("a").Summary())
	}
	if w, err := r.Pod("a").Desired(); w.Size != size || w.Generation != asked[0].Generation ||
		err != nil {
		t.Errorf("desired %+v, %v: want the size from before", w, err)
	}
	_, err = r.RequestSize("vms", "pod-a", api.Size{VCPUs: 2}, false)
	must(t, err)
	if w, err := r.Pod("a").Desired(); w.DryRun == nil || w.DryRun.Generation != second ||
		err != nil {
		t.Errorf("desired %+v, %v: want the dry run to remain", w, err)
	}
	if third := r.requestDryRun(t, api.Size{VCPUs: 8}); third <= second {
		t.Errorf("dry runs %d and %d", second, third)
	}
}

// The agent shows the answer to a dry run beside the latest report. It records no Event and writes
// no file.
func TestReportOfADryRun(t *testing.T) {
	r := newRig(t)
	var left files
	r.Reports = &left
	n := agent.New(r.serve(t, "a"))
	done := podapi.Report{Generation: 7, State: podapi.StateDone}
	must(t, n.Report(t.Context(), done))
	before, events := left.left["a"], len(r.recorder.Events())
	for _, answer := range []podapi.Report{
		{Generation: 900, DryRun: true, State: podapi.StatePlanned, Plan: []string{"set 4 vCPUs"}},
		{Generation: 901, DryRun: true, State: podapi.StateRefused, Error: "too many"},
	} {
		must(t, n.Report(t.Context(), answer))
		l, _ := r.registry.Find("ID-a")
		if diff := cmp.Diff(answer, l.DryRun.Report); diff != "" || l.DryRun.Reported.IsZero() {
			t.Errorf("dry run (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(done, l.Resize.Report); diff != "" {
			t.Errorf("latest report (-want +got)\n%s", diff)
		}
	}
	if left.left["a"] != before || len(r.recorder.Events()) != events {
		t.Errorf("files %v, events %+v", left.left, r.recorder.Events())
	}
}
