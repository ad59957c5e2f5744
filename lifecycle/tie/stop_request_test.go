package tie_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestTieStopAsked(t *testing.T) {
	runScenarios(t, []scenario{
		{"the pod shuts its guest down", enforced(), attended(podStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested"},
			moment{20, vmEnded, "Draining", "VMGone look"},
			moment{21, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
			moment{22, ownerEnded, "Draining", "look"},
			moment{22, nothingLeft{}, "Done over", ""},
		)},
		{"the guest does not react", enforced(), attended(podStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested"},
			moment{34, ticked, "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			moment{45, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			moment{55, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
			moment{65, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
			moment{66, vmEnded, "Draining", "VMGone look"},
		)},
		{"node-level: the guest is asked, then made to", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			moment{45, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"asked twice, it is done once", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{6, stopAsked, "Draining 7=Stopping/shutdown", ""},
		)},
		{"asked without a VM", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
			{3, stopAsked, "Draining", "StopRequested look"},
			{4, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"a look from before the request proves nothing", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, tie.Scanned{}, "Draining", ""},
			{3, tie.Scanned{ID: 2}, "Draining", ""},
			{4, podStarts, "Draining 7=Stopping/shutdown", "VMStarted checkMemlock(7)"},
			{5, nothingLeft{}, "Draining 7=Stopping/shutdown", ""},
			{6, vmEnded, "Draining", "VMGone look"},
			{7, tie.Scanned{ID: 1}, "Draining", ""},
			{8, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"a look finds another VM process", enforced(), attended(podStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested"},
			moment{6, vmEnded, "Draining", "VMGone look"},
			moment{7, tie.Scanned{ID: 1, Found: []tie.VM{podVM(8)}}, "Draining 8=Stopping/shutdown", "VMStarted checkMemlock(8)"},
		)},
	})
}

func TestTieGracePeriod(t *testing.T) {
	terms := withTerms(func(t *tie.Terms) { t.GracePeriod = 10 * time.Minute })
	runScenarios(t, []scenario{{"declared", terms, attended(nodeStarts,
		moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
		moment{604, ticked, "Draining 7=Stopping/shutdown", ""},
		moment{605, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
	)}})
}
