package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestTieOwnerGone(t *testing.T) {
	runScenarios(t, []scenario{
		{"nobody is left to ask the guest", enforced(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{15, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
			moment{16, vmEnded, "Draining", "VMGone look"},
			moment{16, nothingLeft{}, "Done over", ""},
		)},
		{"node-level: libvirt can ask it", enforced(), attended(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown shutdown(7)"},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the VM has ended first", enforced(), attended(podStarts,
			moment{5, vmEnded, "Registered", "VMGone"},
			moment{6, ownerEnded, "Draining", "look"},
			moment{6, nothingLeft{}, "Done over", ""},
		)},
		{"while the pod's stop waits: it is hopeless now", enforced(), attended(podStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested"},
			moment{6, ownerEnded, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"node-level, while the guest shuts down: it may go on", enforced(), attended(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
			moment{6, ownerEnded, "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"between the look and its outcome", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, ownerEnded, "Draining", "look"},
			{3, tie.Scanned{ID: 1}, "Draining", ""},
			{4, nothingLeft{}, "Done over", "confirmStop StopConfirmed"},
		}},
		{"told again with another proof", enforced(), attended(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
			moment{6, tie.LauncherEnded{Proof: "its cgroup is gone"}, "Draining 7=Stopping/term", ""},
		)},
		{"a VM that was started just before is found", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, stopAsked, "Draining", "StopRequested look"},
			{2, nothingLeft{}, "Done", "confirmStop StopConfirmed"},
			{3, ownerEnded, "Draining", "look"},
			{3, tie.Scanned{ID: 2, Found: []tie.VM{podVM(7)}}, "Draining 7=Stopping/term", "VMStarted checkMemlock(7) VMTerminated terminate(7)"},
			{4, vmEnded, "Draining", "VMGone look"},
			{4, nothingLeft{}, "Done over", ""},
		}},
	})
}
