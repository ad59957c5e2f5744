package tie_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
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
			moment{5, tie.VMStarted{VM: nodeVM(8)}, "Draining 7=Stopping/term 8=Running/none", "VMStarted checkMemlock(8)"},
			moment{9, due{}, "Draining 7=Stopping/term 8=Stopping/shutdown", "LeaseExpired VMShutdown shutdown(8)"},
		)},
	})
}

// A pod's own lease counts beside that of somebody else, which it cannot touch.
func TestTiePodLease(t *testing.T) {
	expired := "LeaseExpired OwnerGone VMTerminated terminate(7)"
	ended := "OwnerGone VMTerminated terminate(7)"
	runScenarios(t, []scenario{
		{"holds back a stop until it expires", enforced(), attended(podStarts,
			moment{5, podLeased(20), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{25, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"is ended", enforced(), attended(podStarts,
			moment{5, podLeased(20), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{7, podLeased(0), "Draining 7=Stopping/term", ended},
		)},
		{"does not shorten the other", enforced(), attended(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, podLeased(2), "Active 7=Running/none", ""},
			moment{7, ownerEnded, "Active 7=Running/none", ""},
			moment{25, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"does not end the other", enforced(), attended(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, podLeased(30), "Active 7=Running/none", ""},
			moment{7, podLeased(0), "Active 7=Running/none", ""},
			moment{8, ownerEnded, "Active 7=Running/none", ""},
			moment{25, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"holds when the other is over", enforced(), attended(podStarts,
			moment{5, leased(10), "Active 7=Running/none", ""},
			moment{6, podLeased(30), "Active 7=Running/none", ""},
			moment{7, ownerEnded, "Active 7=Running/none", ""},
			moment{16, ticked, "Active 7=Running/none", ""},
			moment{36, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"is ended with the other", enforced(), attended(podStarts,
			moment{5, podLeased(30), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{7, leased(0), "Draining 7=Stopping/term", ended},
		)},
		{"does not hold back what the pod asks for", enforced(), attended(nodeStarts,
			moment{5, podLeased(20), "Active 7=Running/none", ""},
			moment{6, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown shutdown(7)"},
		)},
	})
}
