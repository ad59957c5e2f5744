package tie_test

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestLauncherGone(t *testing.T) {
	runScenarios(t, []scenario{
		{"no client is left to ask the guest", enforceTerms(), withVM(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{15, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			event{16, vmEnded, "Draining", "VMGone scan"},
			event{16, nothingFound{}, "Done over", ""},
		)},
		{"node-level: libvirt asks the guest", enforceTerms(), withVM(nodeStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown libvirtShutdown(7)",
			},
			event{35, timePassed, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"node-level: libvirt asks the guest again", enforceTerms(), withVM(nodeStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown libvirtShutdown(7)",
			},
			event{15, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{
				16, tie.ActionFailed{
					Action: tie.ShutdownByLibvirt{VM: nodeVM(7), Again: true},
					Err:    errors.New("refused"),
				}, "Draining 7=Stopping/shutdown", "",
			},
			event{25, due{}, "Draining 7=Stopping/shutdown", "libvirtShutdown(7)"},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the VM ends first", enforceTerms(), withVM(podStarts,
			event{5, vmEnded, "Registered", "VMGone"},
			event{6, launcherEnded, "Draining", "scan"},
			event{6, nothingFound{}, "Done over", ""},
		)},
		{"during the stop that the pod requested", enforceTerms(), withVM(podStarts,
			event{5, stopRequested, "Draining 7=Stopping/shutdown", "StopRequested"},
			event{6, launcherEnded, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"node-level: the shutdown of the guest continues", enforceTerms(), withVM(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown libvirtShutdown(7)",
			},
			event{6, launcherEnded, "Draining 7=Stopping/shutdown", ""},
			event{35, timePassed, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"between a scan and its result", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, stopRequested, "Draining", "StopRequested scan"},
			{2, launcherEnded, "Draining", "scan"},
			{3, tie.Scanned{ID: 1}, "Draining", ""},
			{4, nothingFound{}, "Done over", "confirmStop StopConfirmed"},
		}},
		{"a second proof changes nothing", enforceTerms(), withVM(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{
				6, tie.LauncherEnded{Proof: "its cgroup is gone"},
				"Draining 7=Stopping/term", "",
			},
		)},
		{"a scan finds a VM that started just before", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, stopRequested, "Draining", "StopRequested scan"},
			{2, nothingFound{}, "Done", "confirmStop StopConfirmed"},
			{3, launcherEnded, "Draining", "scan"},
			{
				3, tie.Scanned{ID: 2, Found: []tie.VM{podVM(7)}},
				"Draining 7=Stopping/term", "VMStarted checkMemlock(7) VMTerminated terminate(7)",
			},
			{4, vmEnded, "Draining", "VMGone scan"},
			{4, nothingFound{}, "Done over", ""},
		}},
	})
}
