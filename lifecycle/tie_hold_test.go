package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle"
)

func TestTieLease(t *testing.T) {
	runScenarios(t, []scenario{
		{"holds back a stop until it expires", enforced(), attended(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{25, due{}, "Draining 7=Stopping/term", "LeaseExpired OwnerGone VMTerminated terminate(7)"},
		)},
		{"is ended", enforced(), attended(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{7, leased(0), "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
		)},
		{"is extended", enforced(), attended(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{7, leased(30), "Active 7=Running/none", ""},
			moment{37, due{}, "Draining 7=Stopping/term", "LeaseExpired OwnerGone VMTerminated terminate(7)"},
		)},
		{"that held nothing back ends silently", noWatchdog(), attended(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{25, due{}, "Active 7=Running/none", ""},
		)},
		{"does not hold back what the pod asks for", enforced(), attended(nodeStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
		)},
		{"the heartbeat may stay away", enforced(), attended(podStarts,
			moment{5, leased(60), "Active 7=Running/none", ""},
			moment{64, ticked, "Active 7=Running/none", ""},
			moment{65, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
		)},
		{"a VM process starts unattended meanwhile", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, leased(5), "Registered", ""},
			{2, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended"},
			{6, due{}, "Active 7=Stopping/term", "LeaseExpired VMTerminated terminate(7)"},
		}},
		{"a VM process starts unattended meanwhile, and its launcher shows itself", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, leased(5), "Registered", ""},
			{2, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended"},
			{3, beaten, "Active 7=Running/none", ""},
			{6, due{}, "Active 7=Running/none", "LeaseExpired"},
		}},
		{"a VM process starts meanwhile, of a launcher that is gone", enforced(), attended(podStarts,
			moment{3, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{4, leased(5), "Draining 7=Stopping/term", ""},
			moment{5, lifecycle.VMStarted{VM: nodeVM(8)}, "Draining 7=Stopping/term 8=Running/none", "VMStarted checkMemlock(8)"},
			moment{9, due{}, "Draining 7=Stopping/term 8=Stopping/shutdown", "LeaseExpired VMShutdown shutdown(8)"},
		)},
	})
}

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
			moment{6, lifecycle.TermsChanged{Terms: enforced()}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"is entered between SIGTERM and SIGKILL", enforced(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{6, lifecycle.TermsChanged{Terms: observed()}, "Draining 7=Stopping/none", ""},
			moment{99, ticked, "Draining 7=Stopping/none", ""},
			moment{100, lifecycle.TermsChanged{Terms: enforced()}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
	})
}

func TestTieActionFailed(t *testing.T) {
	refused := errors.New("refused")
	runScenarios(t, []scenario{
		{"the guest cannot be asked: SIGTERM at once", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{6, lifecycle.ActionFailed{Action: lifecycle.Shutdown{VM: nodeVM(7)}, Err: refused}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
			moment{7, lifecycle.ActionFailed{Action: lifecycle.Shutdown{VM: nodeVM(7)}, Err: refused}, "Draining 7=Stopping/term", ""},
			moment{16, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"told after the process has ended", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{6, vmEnded, "Draining", "VMGone look"},
			moment{7, lifecycle.ActionFailed{Action: lifecycle.Shutdown{VM: nodeVM(7)}, Err: refused}, "Draining", ""},
		)},
		{"no signal is sent: the next stage comes all the same", enforced(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{5, lifecycle.ActionFailed{Action: lifecycle.Terminate{VM: podVM(7)}, Err: refused}, "Draining 7=Stopping/term", "VMTerminated"},
			moment{15, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			moment{15, lifecycle.ActionFailed{Action: lifecycle.Kill{VM: podVM(7)}, Err: refused}, "Draining 7=Killing/kill", "VMKilled"},
			moment{25, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
		)},
		{"the look fails: it is awaited", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, lifecycle.ActionFailed{Action: lifecycle.Look{Look: 1}, Err: refused}, "Draining", ""},
			{30, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"the pod cannot be told: its request is still there", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
			{2, lifecycle.ActionFailed{Action: lifecycle.ConfirmStop{}, Err: refused}, "Done", ""},
			{12, stopAsked, "Draining", "StopRequested look"},
			{13, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		}},
	})
}

// A guest that gets all the time it was declared, and no second less.
func TestTieGracePeriod(t *testing.T) {
	terms := withTerms(func(t *lifecycle.Terms) { t.GracePeriod = 10 * time.Minute })
	runScenarios(t, []scenario{{"declared", terms, attended(nodeStarts,
		moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
		moment{604, ticked, "Draining 7=Stopping/shutdown", ""},
		moment{605, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
	)}})
}
