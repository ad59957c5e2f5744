package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestStartup(t *testing.T) {
	runScenarios(t, []scenario{
		{"a VM starts and ends, twice", enforceTerms(), withVM(podStarts,
			event{9, vmEnded, "Registered", "VMGone"},
			event{
				10, tie.VMStarted{VM: podVM(8)},
				"Active 8=Running/none", "VMStarted checkMemlock(8)",
			},
		)},
		{"two VM processes at once", enforceTerms(), withVM(podStarts,
			event{
				3, tie.VMStarted{VM: podVM(8)},
				"Active 7=Running/none 8=Running/none", "VMStarted checkMemlock(8)",
			},
			event{4, vmEnded, "Active 8=Running/none", "VMGone"},
		)},
		{"a second report of a start changes nothing", enforceTerms(), withVM(podStarts,
			event{3, podStarts, "Active 7=Running/none", ""},
			event{4, tie.Scanned{Found: []tie.VM{podVM(7)}}, "Active 7=Running/none", ""},
		)},
		{"registered, and no emulator ever appears", reportTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{15, due{}, "Registered", "LauncherHung"},
			{16, launcherEnded, "Draining", "scan"},
			{16, nothingFound{}, "Done over", ""},
		}},
		{"the end of a process that is no VM process", enforceTerms(), withVM(podStarts,
			event{3, tie.VMEnded{Process: process(8)}, "Active 7=Running/none", ""},
		)},
		{"a reused pid is another process", enforceTerms(), withVM(podStarts,
			event{
				3, tie.VMEnded{Process: host.Process{PID: 7, StartTime: 1}},
				"Active 7=Running/none", "",
			},
		)},
		{"a zombie has ended", enforceTerms(), withVM(podStarts,
			event{
				3, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{4, tie.VMEnded{Process: process(7)}, "Draining", "VMGone scan"},
			event{4, nothingFound{}, "Done over", ""},
		)},
		{"the launcher process becomes known late, and once", enforceTerms(), []event{
			{0, heartbeat, "Registered", ""},
			{1, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
			{2, launcherStarted, "Active 7=Running/none", ""},
			{3, tie.LauncherStarted{Process: process(9)}, "Active 7=Running/none", ""},
		}},
	})
}

func TestUnattended(t *testing.T) {
	runScenarios(t, []scenario{
		{"no heartbeat, stop", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{
				1, podStarts,
				"Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated " +
					"terminate(7)",
			},
			{11, due{}, "Active 7=Killing/kill", "VMKilled kill(7)"},
			{12, vmEnded, "Registered", "VMGone"},
		}},
		{"no heartbeat, report", reportTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended"},
			{15, due{}, "Active 7=Running/none", "LauncherHung"},
		}},
		{"no heartbeat is expected", noWatchdog(), []event{
			{0, launcherStarted, "Registered", ""},
			{99, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
		}},
		{"the heartbeat has expired", withTerms(func(t *tie.Terms) { t.StopHung = false }), []event{
			{0, launcherStarted, "Registered", ""},
			{1, heartbeat, "Registered", ""},
			{16, due{}, "Registered", "LauncherHung"},
			{
				17, podStarts,
				"Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated " +
					"terminate(7)",
			},
		}},
		{"the start was not observed: a missing heartbeat proves nothing", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{
				1, tie.Scanned{Found: []tie.VM{podVM(7)}},
				"Active 7=Running/none", "VMStarted checkMemlock(7)",
			},
		}},
		{"node-level, stop: a begun stop continues", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{
				1, nodeStarts,
				"Active 7=Stopping/shutdown", "VMStarted checkMemlock(7) VMUnattended VMShutdown " +
					"libvirtShutdown(7)",
			},
			{2, heartbeat, "Active 7=Stopping/shutdown", ""},
			{3, lease(100), "Active 7=Stopping/shutdown", ""},
			{31, timePassed, "Active 7=Stopping/term", "VMTerminated terminate(7)"},
		}},
		{"after the confirmed stop, each time", enforceTerms(), withVM(podStarts,
			event{3, stopRequested, "Draining 7=Stopping/shutdown", "StopRequested"},
			event{4, vmEnded, "Draining", "VMGone scan"},
			event{5, nothingFound{}, "Done", "confirmStop StopConfirmed"},
			event{
				6, podStarts,
				"Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated " +
					"terminate(7)",
			},
			event{7, vmEnded, "Registered", "VMGone"},
			event{
				8, podStarts,
				"Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated " +
					"terminate(7)",
			},
		)},
		{"after the end of its launcher", enforceTerms(), withVM(podStarts,
			event{
				3, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{4, vmEnded, "Draining", "VMGone scan"},
			event{5, nothingFound{}, "Done over", ""},
			event{
				6, podStarts,
				"Draining 7=Stopping/term", "VMStarted checkMemlock(7) VMTerminated terminate(7)",
			},
		)},
	})
}
