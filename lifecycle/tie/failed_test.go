package tie_test

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestActionFailed(t *testing.T) {
	refused := errors.New("refused")
	runScenarios(t, []scenario{
		{"libvirt cannot ask the guest: SIGTERM at once", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{
				6, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused},
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
			event{
				7, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused},
				"Draining 7=Stopping/term", "",
			},
			event{16, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"the failure arrives after the end of the process", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, vmEnded, "Draining", "VMGone scan"},
			event{
				7, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused},
				"Draining", "",
			},
		)},
		{"signals fail: the next stage follows in time", enforceTerms(), withVM(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{
				5, tie.ActionFailed{Action: tie.Terminate{VM: podVM(7)}, Err: refused},
				"Draining 7=Stopping/term", "VMTerminated",
			},
			event{15, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			event{
				15, tie.ActionFailed{Action: tie.Kill{VM: podVM(7)}, Err: refused},
				"Draining 7=Killing/kill", "VMKilled",
			},
			event{25, due{}, "Draining 7=Killing/kill", "VMStuck kill(7)"},
		)},
		{"a failed scan stays outstanding", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, stopRequested, "Draining", "StopRequested scan"},
			{2, tie.ActionFailed{Action: tie.RequestScan{ID: 1}, Err: refused}, "Draining", ""},
			{30, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"the confirmation fails: the pod requests again", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, stopRequested, "Draining", "StopRequested scan"},
			{2, nothingFound{}, "Done", "confirmStop StopConfirmed"},
			{2, tie.ActionFailed{Action: tie.ConfirmStop{}, Err: refused}, "Done", ""},
			{12, stopRequested, "Draining", "StopRequested scan"},
			{13, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		}},
	})
}
