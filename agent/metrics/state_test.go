package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const wantGauges = `
# HELP mooring_fence_up 1 while the node's fence runs, 0 after it has ended; absent if none has run.
# TYPE mooring_fence_up gauge
mooring_fence_up 1
# HELP mooring_launcher_phases Launcher containers with tracked VM processes, by phase.
# TYPE mooring_launcher_phases gauge
mooring_launcher_phases{phase="Active"} 1
mooring_launcher_phases{phase="Done"} 0
mooring_launcher_phases{phase="Draining"} 1
mooring_launcher_phases{phase="Registered"} 0
# HELP mooring_launchers Launcher containers on the node, by state.
# TYPE mooring_launchers gauge
mooring_launchers{state="Created"} 0
mooring_launchers{state="Creating"} 0
mooring_launchers{state="Refused"} 1
mooring_launchers{state="Running"} 2
mooring_launchers{state="Stopped"} 0
# HELP mooring_memlock_granted_bytes Memory that launchers with a memory lock can lock.
# TYPE mooring_memlock_granted_bytes gauge
mooring_memlock_granted_bytes 4.294967296e+09
# HELP mooring_memlock_locked_bytes Locked and pinned memory of VM processes of launchers with a memory lock.
# TYPE mooring_memlock_locked_bytes gauge
mooring_memlock_locked_bytes 3.221225472e+09
# HELP mooring_memlock_locked_ratio Highest ratio of a launcher's locked memory to its limit.
# TYPE mooring_memlock_locked_ratio gauge
mooring_memlock_locked_ratio 0.75
# HELP mooring_memlock_max_bytes Ceiling of the policy for mooring_memlock_granted_bytes; absent without one.
# TYPE mooring_memlock_max_bytes gauge
mooring_memlock_max_bytes 8.589934592e+09
# HELP mooring_memlock_near_limit_launchers Launchers that have locked nearly all that they may lock.
# TYPE mooring_memlock_near_limit_launchers gauge
mooring_memlock_near_limit_launchers 1
# HELP mooring_memlock_unbounded_launchers Launchers with a memory lock that no memory limit bounds.
# TYPE mooring_memlock_unbounded_launchers gauge
mooring_memlock_unbounded_launchers 2
# HELP mooring_memlock_unlimited_launchers Launchers with an unlimited memory-lock limit.
# TYPE mooring_memlock_unlimited_launchers gauge
mooring_memlock_unlimited_launchers 1
# HELP mooring_nri_synchronized 1 while the container runtime calls the agent for every container, 0 otherwise.
# TYPE mooring_nri_synchronized gauge
mooring_nri_synchronized 1
# HELP mooring_policy_info Always 1; the label is the mode of the node policy.
# TYPE mooring_policy_info gauge
mooring_policy_info{mode="observe"} 1
# HELP mooring_vms VM processes of launchers, by state.
# TYPE mooring_vms gauge
mooring_vms{state="Killing"} 1
mooring_vms{state="Running"} 2
mooring_vms{state="Stopping"} 0
`

func TestGauges(t *testing.T) {
	collector := newStateCollector(State{Launchers: testLaunchers, Node: testNode, Locked: testLocked,
		Fence: testFence})
	if err := testutil.CollectAndCompare(collector, strings.NewReader(wantGauges)); err != nil {
		t.Error(err)
	}
}

func TestGaugesOfAnAgentThatKnowsNothing(t *testing.T) {
	collector := newStateCollector(State{
		Launchers: func() []agentapi.Launcher { return nil },
		Node: func() agentapi.Node {
			return agentapi.Node{NRI: agentapi.NRI{State: agentapi.NRIConnected}}
		},
		Fence:  func() (up, known bool) { return false, false },
		Locked: func() Locked { return Locked{} },
	})
	const want = `
# HELP mooring_nri_synchronized 1 while the container runtime calls the agent for every container, 0 otherwise.
# TYPE mooring_nri_synchronized gauge
mooring_nri_synchronized 0
`
	err := testutil.CollectAndCompare(collector, strings.NewReader(want),
		"mooring_nri_synchronized",
		"mooring_memlock_max_bytes", "mooring_fence_up")
	if err != nil {
		t.Error(err)
	}
}

func testFence() (up, known bool) { return true, true }

func testTracker() agentapi.Tracker {
	return agentapi.Tracker{
		Available: true, Processes: 12, MaxProcesses: 32768, Groups: 3, MaxGroups: 4096,
		LostEvents: 7, LostProcesses: 2, Stale: 1, Skipped: 4,
	}
}

const wantTracker = `
# HELP mooring_tracker_calls_left_out_total Calls of the tracker's programs that the kernel skipped.
# TYPE mooring_tracker_calls_left_out_total counter
mooring_tracker_calls_left_out_total 4
# HELP mooring_tracker_events_lost_total Events lost because the kernel's ring was full.
# TYPE mooring_tracker_events_lost_total counter
mooring_tracker_events_lost_total 7
# HELP mooring_tracker_groups Registered cgroups.
# TYPE mooring_tracker_groups gauge
mooring_tracker_groups 3
# HELP mooring_tracker_map_full_total Processes not tracked because the kernel's map was full.
# TYPE mooring_tracker_map_full_total counter
mooring_tracker_map_full_total 2
# HELP mooring_tracker_max_groups Greatest number of registered cgroups.
# TYPE mooring_tracker_max_groups gauge
mooring_tracker_max_groups 4096
# HELP mooring_tracker_max_processes Greatest number of tracked processes.
# TYPE mooring_tracker_max_processes gauge
mooring_tracker_max_processes 32768
# HELP mooring_tracker_processes Tracked processes.
# TYPE mooring_tracker_processes gauge
mooring_tracker_processes 12
# HELP mooring_tracker_stale_processes_total Processes whose end was missed, found when the kernel reused their pid.
# TYPE mooring_tracker_stale_processes_total counter
mooring_tracker_stale_processes_total 1
# HELP mooring_tracker_up 1 while the kernel tracks processes, 0 otherwise.
# TYPE mooring_tracker_up gauge
mooring_tracker_up 1
`

// Without a working tracker, its metrics are absent: zeros would look like a state.
const wantNoTracker = `
# HELP mooring_tracker_up 1 while the kernel tracks processes, 0 otherwise.
# TYPE mooring_tracker_up gauge
mooring_tracker_up 0
`

func TestTracker(t *testing.T) {
	for name, c := range map[string]struct {
		tracker func() agentapi.Tracker
		want    string
	}{
		"works": {testTracker, wantTracker},
		"none":  {nil, wantNoTracker},
		"failed": {func() agentapi.Tracker {
			return agentapi.Tracker{Error: "it takes CAP_BPF", Processes: 5, LostEvents: 5}
		}, wantNoTracker},
	} {
		t.Run(name, func(t *testing.T) {
			collector := newTrackerCollector(State{Tracker: c.tracker})
			if err := testutil.CollectAndCompare(collector, strings.NewReader(c.want)); err != nil {
				t.Error(err)
			}
		})
	}
}
