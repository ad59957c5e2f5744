package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestObserveMode(t *testing.T) {
	runScenarios(t, []scenario{
		{"stop request", observeTerms(), withVM(podStarts,
			event{5, stopRequested, "Draining 7=Running/none", "StopRequested WouldStop"},
			event{99, timePassed, "Draining 7=Running/none", ""},
			event{100, vmEnded, "Draining", "VMGone scan"},
			event{100, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		)},
		{"launcher gone", observeTerms(), withVM(nodeStarts,
			event{5, launcherEnded, "Draining 7=Running/none", "OwnerGone WouldStop"},
			event{99, timePassed, "Draining 7=Running/none", ""},
		)},
		{"unattended", observeTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{
				1, podStarts,
				"Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended WouldStop",
			},
			{2, timePassed, "Active 7=Running/none", ""},
		}},
		{"the policy changes to enforce mode", observeTerms(), withVM(podStarts,
			event{5, launcherEnded, "Draining 7=Running/none", "OwnerGone WouldStop"},
			event{
				6, tie.TermsChanged{Terms: enforceTerms()},
				"Draining 7=Stopping/term", "VMTerminated terminate(7)",
			},
		)},
		{"the policy changes between SIGTERM and SIGKILL", enforceTerms(), withVM(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{
				6, tie.TermsChanged{Terms: observeTerms()},
				"Draining 7=Running/none", "WouldStop",
			},
			event{99, timePassed, "Draining 7=Running/none", ""},
			event{
				100, tie.TermsChanged{Terms: enforceTerms()},
				"Draining 7=Stopping/term", "VMTerminated terminate(7)",
			},
		)},
	})
}
