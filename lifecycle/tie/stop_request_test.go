package tie_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestStopRequest(t *testing.T) {
	runScenarios(t, []scenario{
		{"the pod shuts its guest down", enforceTerms(), withVM(podStarts,
			event{5, stopRequested, "Draining 7=Stopping/shutdown", "StopRequested"},
			event{20, vmEnded, "Draining", "VMGone scan"},
			event{21, nothingFound{}, "Done", "confirmStop StopConfirmed"},
			event{22, launcherEnded, "Draining", "scan"},
			event{22, nothingFound{}, "Done over", ""},
		)},
		{"the guest does not react", enforceTerms(), withVM(podStarts,
			event{5, stopRequested, "Draining 7=Stopping/shutdown", "StopRequested"},
			event{34, timePassed, "Draining 7=Stopping/shutdown", ""},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			event{45, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			event{55, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
			event{65, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
			event{66, vmEnded, "Draining", "VMGone scan"},
		)},
		{"node-level: shutdown, SIGTERM, SIGKILL", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{35, timePassed, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			event{45, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"a second stop request changes nothing", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, stopRequested, "Draining 7=Stopping/shutdown", ""},
		)},
		{"a stop request without a VM", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, stopRequested, "Draining", "StopRequested scan"},
			{2, nothingFound{}, "Done", "confirmStop StopConfirmed"},
			{3, stopRequested, "Draining", "StopRequested scan"},
			{4, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"a scan from before the request proves nothing", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, stopRequested, "Draining", "StopRequested scan"},
			{2, tie.Scanned{}, "Draining", ""},
			{3, tie.Scanned{ID: 2}, "Draining", ""},
			{4, podStarts, "Draining 7=Stopping/shutdown", "VMStarted checkMemlock(7)"},
			{5, nothingFound{}, "Draining 7=Stopping/shutdown", ""},
			{6, vmEnded, "Draining", "VMGone scan"},
			{7, tie.Scanned{ID: 1}, "Draining", ""},
			{8, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"a scan finds another VM process", enforceTerms(), withVM(podStarts,
			event{5, stopRequested, "Draining 7=Stopping/shutdown", "StopRequested"},
			event{6, vmEnded, "Draining", "VMGone scan"},
			event{
				7, tie.Scanned{ID: 1, Found: []tie.VM{podVM(8)}},
				"Draining 8=Stopping/shutdown", "VMStarted checkMemlock(8)",
			},
		)},
	})
}

func TestGracePeriod(t *testing.T) {
	terms := withTerms(func(t *tie.Terms) { t.GracePeriod = 10 * time.Minute })
	runScenarios(t, []scenario{{"the declared grace period applies", terms, withVM(nodeStarts,
		event{
			5, stopRequested,
			"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
		},
		event{604, timePassed, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
		event{605, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
	)}})
}

// New terms can require a proof of the launcher's end while a scan is under way. Its result then
// confirms no stop.
func TestNoConfirmationWithoutProof(t *testing.T) {
	current := newTie(enforceTerms())
	for _, in := range []tie.Input{launcherStarted, stopRequested} {
		current, _ = tie.Step(current, booted, in)
	}
	scan := tie.Scanned{ID: current.PendingScan()}
	proofOnly := withTerms(func(t *tie.Terms) { t.ProofOnly = true })
	current, _ = tie.Step(current, booted, tie.TermsChanged{Terms: proofOnly})
	current, actions := tie.Step(current, booted, scan)
	if scan.ID == 0 || current.StopConfirmed || current.Phase != agentapi.PhaseDraining {
		t.Errorf("scan %d: %s, actions %v; want no confirmation", scan.ID, showTie(current),
			showActions(actions))
	}
}
