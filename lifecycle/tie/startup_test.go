package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestTieStartup(t *testing.T) {
	runScenarios(t, []scenario{
		{"a VM starts and ends, twice", enforced(), attended(podStarts,
			moment{9, vmEnded, "Registered", "VMGone"},
			moment{10, tie.VMStarted{VM: podVM(8)}, "Active 8=Running/none", "VMStarted checkMemlock(8)"},
		)},
		{"two VM processes at once", enforced(), attended(podStarts,
			moment{3, tie.VMStarted{VM: podVM(8)}, "Active 7=Running/none 8=Running/none", "VMStarted checkMemlock(8)"},
			moment{4, vmEnded, "Active 8=Running/none", "VMGone"},
		)},
		{"told of twice", enforced(), attended(podStarts,
			moment{3, podStarts, "Active 7=Running/none", ""},
			moment{4, tie.Scanned{Found: []tie.VM{podVM(7)}}, "Active 7=Running/none", ""},
		)},
		{"registered, and no emulator ever appears", reporting(), []moment{
			{0, ownerStarted, "Registered", ""},
			{15, due{}, "Registered", "LauncherHung"},
			{16, ownerEnded, "Draining", "look"},
			{16, nothingLeft{}, "Done over", ""},
		}},
		{"the end of a process that is no VM", enforced(), attended(podStarts,
			moment{3, tie.VMEnded{Process: process(8)}, "Active 7=Running/none", ""},
		)},
		{"a pid that is used again is another process", enforced(), attended(podStarts,
			moment{3, tie.VMEnded{Process: host.Process{PID: 7, StartTime: 1}}, "Active 7=Running/none", ""},
		)},
		{"a zombie is told as ended", enforced(), attended(podStarts,
			moment{3, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{4, tie.VMEnded{Process: process(7)}, "Draining", "VMGone look"},
			moment{4, nothingLeft{}, "Done over", ""},
		)},
		{"the owner is known late, and once", enforced(), []moment{
			{0, beaten, "Registered", ""},
			{1, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
			{2, ownerStarted, "Active 7=Running/none", ""},
			{3, tie.LauncherStarted{Process: process(9)}, "Active 7=Running/none", ""},
		}},
	})
}

func TestTieUnattended(t *testing.T) {
	runScenarios(t, []scenario{
		{"no heartbeat, stop", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, podStarts, "Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated terminate(7)"},
			{11, due{}, "Active 7=Killing/kill", "VMKilled kill(7)"},
			{12, vmEnded, "Registered", "VMGone"},
		}},
		{"no heartbeat, report", reporting(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended"},
			{15, due{}, "Active 7=Running/none", "LauncherHung"},
		}},
		{"no heartbeat is expected", noWatchdog(), []moment{
			{0, ownerStarted, "Registered", ""},
			{99, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
		}},
		{"the heartbeat has expired", withTerms(func(t *tie.Terms) { t.StopHung = false }), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, beaten, "Registered", ""},
			{16, due{}, "Registered", "LauncherHung"},
			{17, podStarts, "Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated terminate(7)"},
		}},
		{"nobody saw it start: no heartbeat then proves nothing", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, tie.Scanned{Found: []tie.VM{podVM(7)}}, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
		}},
		{"node-level, stop: the guest is asked, and what is begun goes on", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, nodeStarts, "Active 7=Stopping/shutdown", "VMStarted checkMemlock(7) VMUnattended VMShutdown shutdown(7)"},
			{2, beaten, "Active 7=Stopping/shutdown", ""},
			{3, leased(100), "Active 7=Stopping/shutdown", ""},
			{31, due{}, "Active 7=Stopping/term", "VMTerminated terminate(7)"},
		}},
		{"after the stop was confirmed, however often", enforced(), attended(podStarts,
			moment{3, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested"},
			moment{4, vmEnded, "Draining", "VMGone look"},
			moment{5, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
			moment{6, podStarts, "Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated terminate(7)"},
			moment{7, vmEnded, "Registered", "VMGone"},
			moment{8, podStarts, "Active 7=Stopping/term", "VMStarted checkMemlock(7) VMUnattended VMTerminated terminate(7)"},
		)},
		{"after its launcher had ended", enforced(), attended(podStarts,
			moment{3, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{4, vmEnded, "Draining", "VMGone look"},
			moment{5, nothingLeft{}, "Done over", ""},
			moment{6, podStarts, "Draining 7=Stopping/term", "VMStarted checkMemlock(7) VMTerminated terminate(7)"},
		)},
	})
}
