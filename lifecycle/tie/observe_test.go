package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestTieObserve(t *testing.T) {
	runScenarios(t, []scenario{
		{"stop asked", observed(), attended(podStarts,
			moment{5, stopAsked, "Draining 7=Running/none", "StopRequested WouldStop"},
			moment{99, ticked, "Draining 7=Running/none", ""},
			moment{100, vmEnded, "Draining", "VMGone look"},
			moment{100, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		)},
		{"owner gone", observed(), attended(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Running/none", "OwnerGone WouldStop"},
			moment{99, ticked, "Draining 7=Running/none", ""},
		)},
		{"unattended", observed(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended WouldStop"},
			{2, ticked, "Active 7=Running/none", ""},
		}},
		{"is left while a VM process would be stopped", observed(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Running/none", "OwnerGone WouldStop"},
			moment{6, tie.TermsChanged{Terms: enforced()}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"is entered between SIGTERM and SIGKILL", enforced(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{6, tie.TermsChanged{Terms: observed()}, "Draining 7=Running/none", "WouldStop"},
			moment{99, ticked, "Draining 7=Running/none", ""},
			moment{100, tie.TermsChanged{Terms: enforced()}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
	})
}
