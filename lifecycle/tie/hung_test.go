package tie_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestHungLauncher(t *testing.T) {
	hungStop := withTerms(func(t *tie.Terms) { t.StopUnattended = false })
	runScenarios(t, []scenario{
		{"report: one Event per silence", reportTerms(), withVM(podStarts,
			event{16, due{}, "Active 7=Running/none", "LauncherHung"},
			event{60, timePassed, "Active 7=Running/none", ""},
			event{61, heartbeat, "Active 7=Running/none", ""},
			event{76, due{}, "Active 7=Running/none", "LauncherHung"},
		)},
		{"stop: a later heartbeat does not cancel it", hungStop, withVM(podStarts,
			event{16, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
			event{17, heartbeat, "Draining 7=Stopping/term", ""},
			event{18, vmEnded, "Draining", "VMGone scan"},
			event{19, nothingFound{}, "Done", ""},
			event{20, launcherEnded, "Draining", "scan"},
		)},
		{"the launcher recovers and starts its VM again", hungStop, withVM(podStarts,
			event{16, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
			event{17, vmEnded, "Draining", "VMGone scan"},
			event{17, nothingFound{}, "Done", ""},
			event{18, heartbeat, "Done", ""},
			event{19, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
		)},
		{"node-level, stop: libvirt asks the guest", hungStop, withVM(nodeStarts,
			event{
				16, due{},
				"Draining 7=Stopping/shutdown", "LauncherHung VMShutdown libvirtShutdown(7)",
			},
		)},
		{"silence alone stops nothing", reportTerms(), withVM(nodeStarts,
			event{100_000, timePassed, "Active 7=Running/none", "LauncherHung"},
			event{200_000, timePassed, "Active 7=Running/none", ""},
		)},
		{"the terms change to stop", reportTerms(), withVM(podStarts,
			event{16, due{}, "Active 7=Running/none", "LauncherHung"},
			event{
				17, tie.TermsChanged{Terms: enforceTerms()},
				"Draining 7=Stopping/term", "VMTerminated terminate(7)",
			},
		)},
		{"the terms allow more time, and that expires, too", reportTerms(), withVM(podStarts,
			event{16, due{}, "Active 7=Running/none", "LauncherHung"},
			event{
				17, tie.TermsChanged{Terms: withTerms(func(t *tie.Terms) {
					t.Watchdog = 40 * time.Second
				})},
				"Active 7=Running/none", "",
			},
			event{41, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
		)},
		{"an unknown launcher process cannot hang", enforceTerms(), []event{
			{99, timePassed, "Registered", ""},
		}},
	})
}

// After a hang, a live launcher may start its VM again. After a stop request it may not, also if a
// VM process has started meanwhile.
func TestInactive(t *testing.T) {
	hung := []event{
		{0, launcherStarted, "", ""}, {15, due{}, "", ""}, {16, nothingFound{}, "", ""},
	}
	stopped := []event{
		{0, launcherStarted, "", ""}, {1, stopRequested, "", ""}, {2, nothingFound{}, "", ""},
	}
	ended := []event{{0, launcherStarted, "", ""}, {1, launcherEnded, "", ""}}
	for name, c := range map[string]struct {
		events   []event
		phase    agentapi.Phase
		inactive string
	}{
		"no process yet":     {nil, agentapi.PhaseRegistered, "does not know its launcher process"},
		"a launcher":         {hung[:1], agentapi.PhaseRegistered, ""},
		"the launcher ended": {ended, agentapi.PhaseDraining, "its launcher has ended: its first"},
		"the launcher hangs": {hung[:2], agentapi.PhaseDraining, "launcher hangs"},
		"it has recovered": {
			append(hung, event{17, heartbeat, "", ""}), agentapi.PhaseDone, "",
		},
		"stop requested": {stopped[:2], agentapi.PhaseDraining, "requested the stop"},
		"stop confirmed": {stopped, agentapi.PhaseDone, "requested the stop"},
		"a VM starts late": {
			append(stopped, event{3, heartbeat, "", ""}, event{3, nodeStarts, "", ""}),
			agentapi.PhaseActive, "requested the stop",
		},
	} {
		t.Run(name, func(t *testing.T) {
			current := newTie(enforceTerms())
			for _, e := range c.events {
				now, in := e.input(t, current, current.PendingScan())
				current, _ = tie.Step(current, now, in)
			}
			got := current.Inactive()
			if current.Phase != c.phase || (got == "") != (c.inactive == "") ||
				!strings.Contains(got, c.inactive) {
				t.Errorf("phase %s, inactive: %q; want %s, %q", current.Phase, got, c.phase,
					c.inactive)
			}
		})
	}
}
