package tie_test

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestTieActionFailed(t *testing.T) {
	refused := errors.New("refused")
	runScenarios(t, []scenario{
		{"the guest cannot be asked: SIGTERM at once", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{6, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
			moment{7, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused}, "Draining 7=Stopping/term", ""},
			moment{16, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"told after the process has ended", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{6, vmEnded, "Draining", "VMGone look"},
			moment{7, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused}, "Draining", ""},
		)},
		{"no signal is sent: the next stage comes all the same", enforced(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{5, tie.ActionFailed{Action: tie.Terminate{VM: podVM(7)}, Err: refused}, "Draining 7=Stopping/term", "VMTerminated"},
			moment{15, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			moment{15, tie.ActionFailed{Action: tie.Kill{VM: podVM(7)}, Err: refused}, "Draining 7=Killing/kill", "VMKilled"},
			moment{25, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
		)},
		{"the look fails: it is awaited", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, tie.ActionFailed{Action: tie.RequestScan{ID: 1}, Err: refused}, "Draining", ""},
			{30, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"the pod cannot be told: its request is still there", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
			{2, tie.ActionFailed{Action: tie.ConfirmStop{}, Err: refused}, "Done", ""},
			{12, stopAsked, "Draining", "StopRequested look"},
			{13, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
		}},
	})
}
