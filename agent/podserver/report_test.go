package podserver_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/shim/agent"
)

// files are the reports written into pod directories, by UID.
type files struct {
	mu   sync.Mutex
	left map[string]string
}

func (f *files) WriteReport(uid string, data []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == nil {
		f.left = map[string]string{}
	}
	f.left[uid] = string(data)
	return nil
}

// The agent shows a report, writes it into the pod's directory, and records one Event for a state.
func TestReport(t *testing.T) {
	r := newRig(t)
	var left files
	r.Reports = &left
	n := agent.New(r.serve(t, "a"))
	report := podapi.Report{Generation: 7, State: podapi.StateResizing,
		Plan: []string{"set 4 vCPUs"}}
	must(t, n.Report(t.Context(), report))
	report.Steps = []podapi.Step{{Description: "set 4 vCPUs", Seconds: 0.5}}
	must(t, n.Report(t.Context(), report))
	report.State, report.Error = podapi.StateFailed, "the guest does not answer"
	must(t, n.Report(t.Context(), report))
	report.State, report.Error, report.Actual = podapi.StateDone, "",
		&podapi.Actual{Memory: 2 * gi, VCPUs: 4}
	must(t, n.Report(t.Context(), report))

	l, _ := r.registry.Find("ID-a")
	if diff := cmp.Diff(report, l.Resize.Report); diff != "" || l.Resize.Reported.IsZero() {
		t.Errorf("launcher (-want +got)\n%s", diff)
	}
	if !strings.Contains(left.left["a"], `"generation":7,"state":"Done"`) || len(left.left) != 1 {
		t.Errorf("files: %v", left.left)
	}
	want := []agentapi.Reason{agentapi.ReasonResizeStarted, agentapi.ReasonResizeFailed,
		agentapi.ReasonResizeDone}
	if diff := cmp.Diff(want, r.recorder.Reasons()); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
	for i, want := range []string{"in 1 steps", "the guest does not answer", "2Gi, 4 vCPUs"} {
		if e := r.recorder.Events()[i]; !strings.Contains(e.Message, want) || e.Pod.UID != "a" {
			t.Errorf("event %+v, want one with %q", e, want)
		}
	}
}

// The end of each new resize has an Event, also without any step. A repeated report and an attempt
// at the same resize have none.
func TestReportOfAnotherGeneration(t *testing.T) {
	r := newRig(t)
	p := r.Pod("a")
	for _, report := range []podapi.Report{
		{Generation: 7, State: podapi.StateDone}, {Generation: 7, State: podapi.StateDone},
		{Generation: 8, State: podapi.StateDone},
		{Generation: 9, State: podapi.StateRefused, Error: "a"},
		{Generation: 9, State: podapi.StateRefused, Error: "a"},
		{Generation: 10, State: podapi.StateRefused, Error: "b"},
		{Generation: 11, DryRun: true, State: podapi.StatePlanned},
		{Generation: 8, DryRun: true, State: podapi.StateRefused, Error: "c"},
	} {
		must(t, p.Report(report))
	}
	want := []agentapi.Reason{agentapi.ReasonResizeDone, agentapi.ReasonResizeDone,
		agentapi.ReasonResizeFailed, agentapi.ReasonResizeFailed}
	if diff := cmp.Diff(want, r.recorder.Reasons()); diff != "" {
		t.Errorf("events (-want +got)\n%s", diff)
	}
}

// An Event about the current desired size names that size for programs.
func TestReportIsAboutASize(t *testing.T) {
	r := newRig(t)
	size := api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 150}, CPUShares: 200}
	asked, err := r.RequestSize("vms", "pod-a", size, false)
	must(t, err)
	generation := asked[0].Generation
	for _, g := range []uint64{generation - 1, generation, generation + 1} {
		must(t, r.Pod("a").Report(podapi.Report{Generation: g, State: podapi.StateDone}))
	}
	var got []*agentapi.DesiredSize
	for _, e := range r.recorder.Events() {
		got = append(got, e.Desired)
	}
	want := []*agentapi.DesiredSize{nil, {Generation: generation, Size: size}, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Each Event has the report at that time, cut to the size of Events. The agent itself shows all of
// it.
func TestEventHasTheReport(t *testing.T) {
	r := newRig(t)
	begun := podapi.Report{Generation: 7, State: podapi.StateResizing,
		Plan: []string{"set 4 vCPUs", "plug 2Gi"}}
	done := begun
	done.State, done.Notes, done.Actual = podapi.StateDone, []string{"the balloon is empty"},
		&podapi.Actual{Memory: 4 * gi, VCPUs: 4}
	done.Steps = []podapi.Step{{Description: "set 4 vCPUs", Started: time.Unix(7, 0), Seconds: 0.5},
		{Description: "plug 2Gi", Started: time.Unix(8, 0), Seconds: 1.5}}
	long := podapi.Report{Generation: 8, State: podapi.StateFailed,
		Error: strings.Repeat("<", podapi.MaxLine)}
	for i := range podapi.MaxLines {
		long.Steps = append(long.Steps,
			podapi.Step{Description: strings.Repeat("<", podapi.MaxLine),
				Started: time.Unix(int64(i), 0)})
	}
	for _, report := range []podapi.Report{begun, done, long} {
		must(t, r.Pod("a").Report(report))
	}
	events := r.recorder.Events()
	if diff := cmp.Diff([]*podapi.Report{&begun, &done},
		[]*podapi.Report{events[0].Report, events[1].Report}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	cut := events[2].Report
	text, err := json.Marshal(cut)
	if err != nil || len(text) > agentapi.MaxEventReport || cut.Check() != nil ||
		cut.Error != long.Error {
		t.Errorf("%d bytes, %v, %v: want at most %d, with the error", len(text), err, cut.Check(),
			agentapi.MaxEventReport)
	}
	if n := len(cut.Steps); n == 0 || n == podapi.MaxLines ||
		!cut.Steps[n-1].Started.Equal(long.Steps[podapi.MaxLines-1].Started) {
		t.Errorf("%d steps, want the last ones", n)
	}
	if l, _ := r.registry.Find("ID-a"); len(l.Resize.Report.Steps) != podapi.MaxLines {
		t.Errorf("the agent shows %d steps, want all", len(l.Resize.Report.Steps))
	}
}

// A pod that reports without pause causes few Events.
func TestReportFlood(t *testing.T) {
	r := newRig(t)
	p := r.Pod("a")
	for i := range 500 {
		state := podapi.StateResizing
		if i%2 == 1 {
			state = podapi.StateFailed
		}
		must(t, p.Report(podapi.Report{State: state}))
	}
	if n := len(r.recorder.Events()); n < 2 || n > 10 {
		t.Errorf("%d events of 500 reports", n)
	}
}

// A requested size becomes the desired size, also for a restarted agent.
func TestRequestSize(t *testing.T) {
	r := newRig(t)
	before, err := r.Pod("a").Desired()
	must(t, err)
	size := api.Size{VCPUs: 4, Memory: 4 << 30, CPUQuota: api.CPUQuota{Percent: 150},
		CPUShares: 200}
	pods, err := r.RequestSize("vms", "pod-a", size, false)
	must(t, err)
	after, err := r.Pod("a").Desired()
	must(t, err)
	if after.Size != size || after.Generation <= before.Generation || len(pods) != 1 ||
		pods[0].Generation != after.Generation {
		t.Errorf("desired %+v, RequestSize %+v", after, pods)
	}
	if other, err := r.Pod("b").Desired(); other.Size != (api.Size{}) || err != nil {
		t.Errorf("desired size of the other pod %+v, %v", other, err)
	}
	if pods, err := r.RequestSize("vms", "pod-c", size, false); len(pods) > 0 || err != nil {
		t.Errorf("RequestSize: %v, %v", pods, err)
	}
	r.remove("a")
	r.Forget("a")
	r.add("a", 300)
	if gone, err := r.Pod("a").Desired(); gone.Size != (api.Size{}) || err != nil {
		t.Errorf("desired %+v after the pod is gone, %v", gone, err)
	}
}

func TestFileStore(t *testing.T) {
	dir := t.TempDir()
	open := func() *podserver.FileStore {
		s, err := podserver.OpenFileStore(dir)
		must(t, err)
		return s
	}
	s := open()
	asked := podserver.Record{Size: api.Size{VCPUs: 4},
		DryRun: &podapi.DryRun{Generation: 7, Size: api.Size{Memory: 1}}}
	must(t, s.Put("a", asked))
	must(t, s.Put("b", asked))
	must(t, s.Delete("b"))
	must(t, s.Delete("b"))
	must(t, s.Close())
	s = open()
	defer s.Close()
	got, err := s.Get("a")
	if diff := cmp.Diff(asked, got); diff != "" || err != nil {
		t.Errorf("stored: %v (-want +got)\n%s", err, diff)
	}
	if left := s.UIDs(); !slices.Equal(left, []string{"a"}) {
		t.Errorf("records of %q, want no deleted one", left)
	}
	if err := s.Put("../b", asked); err == nil {
		t.Error("the store made a file outside its directory")
	}
}

// specs is a Kubernetes with the desired state of pods.
type specs map[string]podapi.Desired

func (s specs) Desired(uid, container string) (podapi.Desired, bool) {
	desired, ok := s[uid]
	desired.Launcher = container
	return desired, ok
}

func (specs) Synced() bool { return true }

// With Kubernetes the pod's limits come before the runtime's, and the agent takes no requests.
func TestKubernetesHasTheSize(t *testing.T) {
	r := newRig(t)
	r.Desired = specs{"a": {
		Limits: podapi.Limits{Memory: int64(6 * gi), CPU: 3000},
		Pod:    podapi.Limits{Memory: int64(8 * gi)},
		Size:   api.Size{Memory: 5 << 30},
	}}
	r.registry.Update("ID-a", func(l *registry.Launcher) { l.Size = api.Size{VCPUs: 1} })
	got, err := r.Pod("a").Desired()
	want := podapi.Desired{
		Generation: got.Generation, Launcher: "compute",
		Limits: podapi.Limits{Memory: int64(6 * gi), CPU: 3000},
		Pod:    podapi.Limits{Memory: int64(8 * gi)}, Size: api.Size{Memory: 5 << 30},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	_, err = r.RequestSize("vms", "pod-a", api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{None: true},
		CPUShares: 200}, false)
	if !errors.Is(err, podserver.ErrKubernetes) ||
		!strings.Contains(err.Error(), "kubectl -n vms annotate --overwrite pod pod-a "+
			"vcpus.resize.mooring.dev=4 cpu-quota.resize.mooring.dev=none "+
			"cpu-shares.resize.mooring.dev=200") {
		t.Errorf("error %v, want the command that annotates the pod", err)
	}
}

func TestMaxHold(t *testing.T) {
	if podapi.MaxHold != agentapi.MaxLease {
		t.Errorf("a hold may last %s, a lease %s", podapi.MaxHold, agentapi.MaxLease)
	}
}
