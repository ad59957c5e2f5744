package tie_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// askFailed is the failure of the nth request to libvirt for a node-level VM.
func askFailed(n int, final bool) tie.ActionFailed {
	vm := nodeVM(7)
	vm.Asks = n
	return tie.ActionFailed{
		Action: tie.ShutdownByLibvirt{VM: vm, Again: n > 1},
		Err:    errors.New("refused"), Final: final,
	}
}

func TestActionFailed(t *testing.T) {
	refused := errors.New("refused")
	runScenarios(t, []scenario{
		{"libvirt has no such domain: SIGTERM at once", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{
				6, askFailed(1, true),
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
			event{7, askFailed(1, true), "Draining 7=Stopping/term", ""},
			event{16, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"libvirt restarts: the next request reaches the guest", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, askFailed(1, false), "Draining 7=Stopping/shutdown", "VMShutdown"},
			event{15, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{25, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{26, askFailed(3, false), "Draining 7=Stopping/shutdown", ""},
			event{27, askFailed(3, true), "Draining 7=Stopping/shutdown", ""},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"libvirt stays away: SIGTERM after three requests", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, askFailed(1, false), "Draining 7=Stopping/shutdown", "VMShutdown"},
			event{7, askFailed(1, false), "Draining 7=Stopping/shutdown", ""}, // counts once
			event{8, askFailed(2, false), "Draining 7=Stopping/shutdown", ""}, // was not sent yet
			event{15, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{16, askFailed(2, false), "Draining 7=Stopping/shutdown", "VMShutdown"},
			event{25, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{
				26, askFailed(3, false),
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
		)},
		{"failures arrive in the other order, and count once", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{15, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{16, askFailed(2, false), "Draining 7=Stopping/shutdown", ""},
			event{16, askFailed(2, false), "Draining 7=Stopping/shutdown", ""},
			event{17, askFailed(1, false), "Draining 7=Stopping/shutdown", "VMShutdown"},
			event{18, askFailed(1, false), "Draining 7=Stopping/shutdown", ""},
			event{25, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{
				26, askFailed(3, false),
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
		)},
		{"the failure before a final one is late", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{15, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{16, askFailed(2, true), "Draining 7=Stopping/shutdown", ""},
			event{
				17, askFailed(1, false),
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
		)},
		{"libvirt stays away: the grace period ends first", withTerms(func(t *tie.Terms) {
			t.GracePeriod = 8 * time.Second
		}), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, askFailed(1, false), "Draining 7=Stopping/shutdown", "VMShutdown"},
			event{13, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"an old failure while the pod has the request", enforceTerms(), withVM(nodeStarts,
			event{3, handlerConnected, "Active 7=Running/none", ""},
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{6, askFailed(1, true), "Draining 7=Stopping/shutdown", ""},
		)},
		{"the failure arrives after the end of the process", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, vmEnded, "Draining", "VMGone explainEnd(7) scan"},
			event{
				7, askFailed(1, false), "Draining", "",
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

// libvirt's refusal can come after the agent has sent SIGTERM. It does not hasten SIGKILL.
func TestLateFailureOfAShutdown(t *testing.T) {
	current, now := newTie(enforceTerms()), booted
	var request tie.ShutdownByLibvirt
	for _, in := range []tie.Input{launcherStarted, nodeStarts, launcherEnded} {
		var actions []tie.Action
		current, actions = tie.Step(current, now, in)
		for _, a := range actions {
			if asked, ok := a.(tie.ShutdownByLibvirt); ok {
				request = asked
			}
		}
	}
	now = current.VMs[0].Due
	current, _ = tie.Step(current, now, timePassed)
	due := current.VMs[0].Due
	failed := tie.ActionFailed{Action: request, Err: errors.New("no such domain"), Final: true}
	current, actions := tie.Step(current, now, failed)
	if vm := current.VMs[0]; request.VM.Asks != 1 || vm.Stage != tie.StageTerm || vm.Due != due ||
		len(actions) > 0 {
		t.Errorf("after request %+v: %+v, actions %v; want SIGKILL at %v", request, vm,
			showActions(actions), due)
	}
}
