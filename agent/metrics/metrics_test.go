package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/plugin"
)

// exercised returns metrics in which every series exists.
func exercised(t *testing.T) *Metrics {
	t.Helper()
	m := New(Build{Version: "v1.2.3", Revision: "abc", GoVersion: "go1.26"})
	m.Record(agentapi.Event{Type: agentapi.Warning, Reason: agentapi.ReasonLimitMissing})
	m.Checked(agentapi.MemlockSetting, agentapi.StatusApplied, true)
	m.Checked(agentapi.MemlockSetting, agentapi.StatusApplied, false)
	m.CheckDropped()
	m.KubeEvent("written")
	m.Request("CreateContainer", 30*time.Microsecond, nil)
	m.Request("CreateContainer", 30*time.Microsecond,
		fmt.Errorf("wrapped: %w", &decide.Refusal{Message: "too much"}))
	m.Request("CreateContainer", 30*time.Microsecond, errors.New("no room"))
	m.Decided(plugin.OutcomeRefused)
	m.Connection(plugin.Status{Phase: plugin.Connecting})
	m.Connection(plugin.Status{Phase: plugin.Disconnected, Err: errors.New("no socket")})
	m.Connection(plugin.Status{Phase: plugin.Synchronized})
	m.Connection(plugin.Status{Phase: plugin.Disconnected})
	m.StubAbandoned()
	m.ActionDone("terminate", nil)
	m.ActionDone("kill", errors.New("not permitted"))
	m.NotificationsDropped()
	if err := m.Watch(State{Launchers: testLaunchers, Node: testNode, Locked: testLocked,
		Fence:   testFence,
		Tracker: testTracker}); err != nil {
		t.Fatal(err)
	}
	return m
}

func testLaunchers() []agentapi.Launcher {
	return []agentapi.Launcher{
		{State: agentapi.StateRunning, Phase: agentapi.PhaseActive,
			VMs: []agentapi.VM{{State: agentapi.VMRunning}}},
		{State: agentapi.StateRunning, Phase: agentapi.PhaseDraining, VMs: []agentapi.VM{
			{State: agentapi.VMRunning}, {State: agentapi.VMKilling},
		}},
		{State: agentapi.StateRefused},
	}
}

func testNode() agentapi.Node {
	return agentapi.Node{
		Mode: "observe",
		NRI:  agentapi.NRI{State: agentapi.NRISynchronized},
		Memlock: agentapi.Account{Granted: 4 << 30, Unlimited: 1, Max: 8 << 30,
			Unbounded: 2},
	}
}

func testLocked() Locked { return Locked{Bytes: 3 << 30, Ratio: 0.75, NearLimit: 1} }

func TestNamesFollowTheConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(exercised(t).registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func TestNoLabelNamesAPod(t *testing.T) {
	families, err := exercised(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				switch name := label.GetName(); name {
				case "pod", "namespace", "container", "uid", "pid":
					t.Errorf("%s has the label %s", family.GetName(), name)
				}
			}
		}
	}
}

func TestCounters(t *testing.T) {
	const want = `
# HELP mooring_build_info Always 1; the labels identify the program.
# TYPE mooring_build_info gauge
mooring_build_info{goversion="go1.26",revision="abc",version="v1.2.3"} 1
# HELP mooring_decisions_total Decisions about the creation of launcher containers, by outcome.
# TYPE mooring_decisions_total counter
mooring_decisions_total{outcome="failed"} 0
mooring_decisions_total{outcome="refused"} 1
mooring_decisions_total{outcome="set"} 0
mooring_decisions_total{outcome="would-refuse"} 0
mooring_decisions_total{outcome="would-set"} 0
mooring_decisions_total{outcome="yielded"} 0
# HELP mooring_events_total Events about launchers that the agent wrote, by type and reason.
# TYPE mooring_events_total counter
mooring_events_total{reason="AnnotationInvalid",type="Warning"} 0
mooring_events_total{reason="CgroupDiffers",type="Warning"} 0
mooring_events_total{reason="CgroupIneffective",type="Warning"} 0
mooring_events_total{reason="CgroupRefused",type="Warning"} 0
mooring_events_total{reason="DomainClaimed",type="Warning"} 0
mooring_events_total{reason="DomainRefused",type="Warning"} 0
mooring_events_total{reason="GracePeriodRefused",type="Warning"} 0
mooring_events_total{reason="LauncherHung",type="Warning"} 0
mooring_events_total{reason="LeaseExpired",type="Warning"} 0
mooring_events_total{reason="LimitAbove",type="Warning"} 0
mooring_events_total{reason="LimitLowered",type="Normal"} 0
mooring_events_total{reason="LimitMissing",type="Warning"} 1
mooring_events_total{reason="LimitRepaired",type="Normal"} 0
mooring_events_total{reason="LimitYielded",type="Normal"} 0
mooring_events_total{reason="MemlockRefused",type="Warning"} 0
mooring_events_total{reason="NeighbourMemlock",type="Warning"} 0
mooring_events_total{reason="OwnerGone",type="Warning"} 0
mooring_events_total{reason="PodDirFailed",type="Warning"} 0
mooring_events_total{reason="ResizeDone",type="Normal"} 0
mooring_events_total{reason="ResizeFailed",type="Warning"} 0
mooring_events_total{reason="ResizeStarted",type="Normal"} 0
mooring_events_total{reason="StopConfirmed",type="Normal"} 0
mooring_events_total{reason="StopRequested",type="Normal"} 0
mooring_events_total{reason="TrackerFull",type="Warning"} 0
mooring_events_total{reason="VMGone",type="Normal"} 0
mooring_events_total{reason="VMKilled",type="Warning"} 0
mooring_events_total{reason="VMShutdown",type="Normal"} 0
mooring_events_total{reason="VMShutdown",type="Warning"} 0
mooring_events_total{reason="VMStarted",type="Normal"} 0
mooring_events_total{reason="VMStuck",type="Warning"} 0
mooring_events_total{reason="VMTerminated",type="Normal"} 0
mooring_events_total{reason="VMTerminated",type="Warning"} 0
mooring_events_total{reason="VMUnattended",type="Warning"} 0
mooring_events_total{reason="WouldRefuse",type="Warning"} 0
mooring_events_total{reason="WouldSet",type="Normal"} 0
mooring_events_total{reason="WouldStop",type="Warning"} 0
# HELP mooring_guard_changes_total Checks whose result differs from the previous check, by setting and result.
# TYPE mooring_guard_changes_total counter
mooring_guard_changes_total{setting="memlock",status="applied"} 1
# HELP mooring_guard_checks_dropped_total Checks skipped because too many were waiting. The next regular check makes up for one.
# TYPE mooring_guard_checks_dropped_total counter
mooring_guard_checks_dropped_total 1
# HELP mooring_guard_checks_total Comparisons of a granted setting with the kernel's value, by setting and result.
# TYPE mooring_guard_checks_total counter
mooring_guard_checks_total{setting="memlock",status="applied"} 2
# HELP mooring_hints_dropped_total Kernel events dropped because too many were waiting. A full scan finds the same facts.
# TYPE mooring_hints_dropped_total counter
mooring_hints_dropped_total 1
# HELP mooring_kube_events_total Events sent to the Kubernetes API, by outcome.
# TYPE mooring_kube_events_total counter
mooring_kube_events_total{status="written"} 1
# HELP mooring_nri_abandoned_stubs_total Hanging attempts to connect that the agent abandoned, with their memory.
# TYPE mooring_nri_abandoned_stubs_total counter
mooring_nri_abandoned_stubs_total 1
# HELP mooring_nri_disconnects_total Connections to the container runtime that failed or ended.
# TYPE mooring_nri_disconnects_total counter
mooring_nri_disconnects_total 1
# HELP mooring_nri_requests_total Requests from the container runtime, by method and outcome.
# TYPE mooring_nri_requests_total counter
mooring_nri_requests_total{method="CreateContainer",status="error"} 1
mooring_nri_requests_total{method="CreateContainer",status="ok"} 1
mooring_nri_requests_total{method="CreateContainer",status="refused"} 1
# HELP mooring_nri_synchronizations_total Connections to the container runtime that completed NRI's Synchronize.
# TYPE mooring_nri_synchronizations_total counter
mooring_nri_synchronizations_total 1
# HELP mooring_vm_actions_total Actions to end VM processes, by action and result.
# TYPE mooring_vm_actions_total counter
mooring_vm_actions_total{action="confirm",status="error"} 0
mooring_vm_actions_total{action="confirm",status="ok"} 0
mooring_vm_actions_total{action="kill",status="error"} 1
mooring_vm_actions_total{action="kill",status="ok"} 0
mooring_vm_actions_total{action="shutdown",status="error"} 0
mooring_vm_actions_total{action="shutdown",status="ok"} 0
mooring_vm_actions_total{action="terminate",status="error"} 0
mooring_vm_actions_total{action="terminate",status="ok"} 1
`
	err := testutil.GatherAndCompare(exercised(t).registry, strings.NewReader(want),
		"mooring_build_info", "mooring_events_total", "mooring_guard_changes_total",
		"mooring_guard_checks_dropped_total",
		"mooring_guard_checks_total", "mooring_kube_events_total", "mooring_decisions_total",
		"mooring_nri_requests_total",
		"mooring_nri_abandoned_stubs_total", "mooring_nri_disconnects_total",
		"mooring_nri_synchronizations_total",
		"mooring_vm_actions_total", "mooring_hints_dropped_total")
	if err != nil {
		t.Error(err)
	}
}

func TestWatchTwice(t *testing.T) {
	if err := exercised(t).Watch(State{Launchers: testLaunchers, Node: testNode, Locked: testLocked,
		Fence: testFence}); err == nil {
		t.Error("no error")
	}
}

func TestMetricsAreServed(t *testing.T) {
	w := httptest.NewRecorder()
	exercised(t).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics",
		http.NoBody))
	for _, want := range []string{"mooring_build_info", "go_goroutines",
		"process_start_time_seconds"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
