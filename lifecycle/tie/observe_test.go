package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
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

// The text begins as the texts of all predictions do.
func TestTextOfWouldStop(t *testing.T) {
	current := newTie(observeTerms())
	var got string
	for n, in := range []tie.Input{launcherStarted, podStarts, launcherEnded} {
		next, actions := tie.Step(current, atSecond(n), in)
		current = next
		for _, a := range actions {
			if r, ok := a.(tie.Report); ok && r.Reason == agentapi.ReasonWouldStop {
				got = r.Message
			}
		}
	}
	want := policy.Observing + "would stop the VM process (qemu-kvm): the launcher is gone: " +
		"its first process has ended"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
