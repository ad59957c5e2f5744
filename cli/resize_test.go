package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// RequestSize answers with a fixed generation and stores the test's report in the launcher.
func (l *testLaunchersAPI) RequestSize(
	namespace, pod string, size api.Size, dryRun bool,
) ([]agentapi.ResizedPod, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	for i := range l.launchers {
		launcher := &l.launchers[i]
		if launcher.Pod.Namespace != namespace || launcher.Pod.Name != pod {
			continue
		}
		if l.report == nil {
			return []agentapi.ResizedPod{{UID: launcher.Pod.UID, Generation: 7}}, nil
		}
		resize := &agentapi.Resize{Reported: now.Add(-5 * time.Second),
			Report: l.report(size, dryRun)}
		if resize.Report.DryRun {
			launcher.DryRun = resize
		} else {
			launcher.Resize = resize
		}
		return []agentapi.ResizedPod{{UID: launcher.Pod.UID, Generation: 7}}, nil
	}
	return nil, nil
}

func resized() podapi.Report {
	started := time.Date(2026, 11, 21, 11, 59, 50, 0, time.Local)
	return podapi.Report{
		Generation: 7, State: podapi.StateDone, Plan: []string{"set 4 vCPUs", "plug 2Gi"},
		Notes: []string{"the balloon is empty"},
		Steps: []podapi.Step{
			{Description: "set 4 vCPUs", Started: started, Seconds: 0.25},
			{Description: "plug 2Gi", Started: started.Add(time.Second), Seconds: 1.5},
		},
		Actual: &podapi.Actual{Memory: 4 << 30, VCPUs: 4, Online: 3},
	}
}

func failed(state podapi.State) podapi.Report {
	r := resized()
	r.State, r.Error, r.Actual = state, "the guest\tdoes not answer", nil
	r.Steps[1].Error = "not confirmed"
	r.Steps = append(r.Steps, podapi.Step{Description: "set 2 vCPUs", Rollback: true,
		Started: r.Steps[1].Started})
	return r
}

const (
	plan  = "plan  1  set 4 vCPUs\nplan  2  plug 2Gi\n"
	steps = "11:59:50     0.25s  set 4 vCPUs\n11:59:51     1.50s  plug 2Gi"
)

func TestResize(t *testing.T) {
	for name, c := range map[string]struct {
		report podapi.Report
		args   []string
		want   result
	}{
		"request": {resized(), []string{"--vcpus", "4", "--memory", "4Gi", "--cpu-quota", "150",
			"--cpu-shares", "200"},
			result{ExitOK, "vms/vfio: requested 4 vCPUs, 4Gi of memory, CPU quota 150%, 200 CPU " +
				"shares\n",
				"the pod has not reported any resize yet: it needs Mooring's sidecar, or another " +
					"client of the pod's socket\n"}},
		"done": {resized(), []string{"--vcpus", "4", "--wait"},
			result{ExitOK, "vms/vfio: requested 4 vCPUs\n" + plan + steps + "\nnote: the balloon " +
				"is empty\ndone: 4Gi of memory, 4 vCPUs (3 in use)\n", ""}},
		"failed": {failed(podapi.StateFailed), []string{"--vcpus", "4", "--wait"},
			result{ExitFailure, "vms/vfio: requested 4 vCPUs\n" + plan + steps +
				": not confirmed\n11:59:51     0.00s  set 2 vCPUs (rolled back)\nnote: the " +
				"balloon is empty\n",
				"error: the pod could not resize its VM (Failed): the guest?does not answer\n"}},
		"planned": {podapi.Report{Generation: 7, DryRun: true, State: podapi.StatePlanned,
			Plan: resized().Plan}, []string{"--vcpus", "4", "--dry-run"},
			result{ExitOK, "vms/vfio: requested a plan for 4 vCPUs\n" + plan, ""}},
		"nothing to do": {podapi.Report{Generation: 7, DryRun: true, State: podapi.StatePlanned,
			Notes: []string{"a\tb"}}, []string{"--cpu-quota", "none", "--dry-run"},
			result{ExitOK, "vms/vfio: requested a plan for CPU quota none\nnothing to do\n" +
				"note: a?b\n", ""}},
		"refused": {podapi.Report{Generation: 7, DryRun: true, State: podapi.StateRefused,
			Error: "too much"}, []string{"--vcpus", "4", "--dry-run"},
			result{ExitFailure, "vms/vfio: requested a plan for 4 vCPUs\n",
				"error: the pod cannot resize its VM to this size (Refused): too much\n"}},
		"report of an earlier dry run": {podapi.Report{Generation: 6, DryRun: true,
			State: podapi.StatePlanned}, []string{"--vcpus", "4", "--dry-run", "--timeout", "10ms"},
			result{ExitFailure, "vms/vfio: requested a plan for 4 vCPUs\n",
				"error: waited for 10ms: " + errNoReport.Error() + "\n"}},
		"report of a later dry run": {podapi.Report{Generation: 8, DryRun: true,
			State: podapi.StatePlanned}, []string{"--vcpus", "4", "--dry-run"},
			result{ExitFailure, "vms/vfio: requested a plan for 4 vCPUs\n",
				"error: a later dry run replaced this one: try again\n"}},
		"resize report for a dry run": {resized(),
			[]string{"--vcpus", "4", "--dry-run", "--timeout", "10ms"},
			result{ExitFailure, "vms/vfio: requested a plan for 4 vCPUs\n",
				"error: waited for 10ms: " + errNoReport.Error() + "\n"}},
		"report of an earlier resize": {podapi.Report{Generation: 6, State: podapi.StateDone},
			[]string{"--vcpus", "4", "--wait", "--timeout", "10ms"},
			result{ExitFailure, "vms/vfio: requested 4 vCPUs\n",
				"error: waited for 10ms: " + errNoReport.Error() + "\n"}},
		"still resizing": {podapi.Report{Generation: 7, State: podapi.StateResizing},
			[]string{"--vcpus", "4", "--wait", "--timeout", "1s"},
			result{ExitFailure, "vms/vfio: requested 4 vCPUs\n",
				"error: waited for 1s: the pod is still resizing its VM; `mooring inspect` shows " +
					"the progress\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, vfio("vms"))
			a.leases.report = func(api.Size, bool) podapi.Report { return c.report }
			if got := run(t.Context(), t, a.socket,
				append([]string{"resize", "vms/vfio"}, c.args...)...); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestInspectShowsResize(t *testing.T) {
	a := startAgent(t, vfio("vms"))
	a.leases.report = func(api.Size, bool) podapi.Report { return failed(podapi.StateFailed) }
	run(t.Context(), t, a.socket, "resize", "vfio", "--vcpus", "4")
	goldens(t, a, map[string][]string{"inspect-resize": {"inspect", "vfio"}})
}

func TestResizeErrors(t *testing.T) {
	a := startAgent(t, vfio("vms"))
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no size": {[]string{"vfio"}, ExitUsage, "want --vcpus, --memory, --cpu-quota or " +
			"--cpu-shares"},
		"no vCPU": {[]string{"vfio", "--vcpus", "0"}, ExitUsage, "want a number of virtual " +
			"CPUs between 1 and 8192"},
		"negative": {[]string{"vfio", "--vcpus", "-1"}, ExitUsage,
			"want a number of virtual CPUs"},
		"bad quantity": {[]string{"vfio", "--memory", "lots"}, ExitUsage,
			`memory.resize.mooring.dev: "lots"`},
		"bad quota": {[]string{"vfio", "--cpu-quota", "0%"}, ExitUsage,
			"want percent of one CPU"},
		"no shares": {[]string{"vfio", "--cpu-shares", "0"}, ExitUsage,
			`cpu-shares.resize.mooring.dev: "0": want CPU shares between 2 and 10000`},
		"both": {[]string{"vfio", "--vcpus", "1", "--wait", "--dry-run"}, ExitUsage,
			"want either --dry-run"},
		"no time": {[]string{"vfio", "--vcpus", "1", "--timeout", "0s"}, ExitUsage,
			"--timeout 0s"},
		"unknown pod": {[]string{"none", "--vcpus", "1"}, ExitNotFound, `no pod "none"`},
	} {
		got := run(t.Context(), t, a.socket, append([]string{"resize"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.errOut, c.want) || got.out != "" {
			t.Errorf("%s: got %+v, want exit code %d and %q", name, got, c.code, c.want)
		}
	}
	a.leases.err = errors.New("this node has Kubernetes")
	got := run(t.Context(), t, a.socket, "resize", "vfio", "--vcpus", "1")
	if got.code != ExitFailure ||
		!strings.Contains(got.errOut, "resize of pod vms/vfio: this node has Kubernetes") {
		t.Errorf("got %+v, want the agent's error", got)
	}
}
