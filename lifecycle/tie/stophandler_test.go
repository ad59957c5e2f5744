package tie_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

var takerCame = tie.StopHandlerConnected{}

func takerLeft(seconds int) tie.StopHandlerDisconnected {
	return tie.StopHandlerDisconnected{Wait: time.Duration(seconds) * time.Second}
}

// listened is how a launcher begins in whose pod somebody takes requests.
func listened(starts tie.VMStarted, then ...moment) []moment {
	return attended(starts, append([]moment{{3, takerCame, "Active 7=Running/none", ""}}, then...)...)
}

func TestTieTaker(t *testing.T) {
	runScenarios(t, []scenario{
		{"the pod ends its VM", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{20, vmEnded, "Draining", "VMGone look"},
			moment{20, nothingLeft{}, "Done over", ""},
		)},
		{"nobody acts", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			moment{45, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"node-level: instead of libvirt", enforced(), listened(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"node-level, and the pod asks", enforced(), listened(nodeStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested VMShutdown askPod(7)"},
		)},
		{"the pod asks by itself: it knows", enforced(), listened(podStarts,
			moment{5, stopAsked, "Draining 7=Stopping/shutdown", "StopRequested"},
			moment{6, ownerEnded, "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the launcher hangs", enforced(), listened(podStarts,
			moment{16, due{}, "Draining 7=Stopping/shutdown", "LauncherHung VMShutdown askPod(7)"},
			moment{17, beaten, "Draining 7=Stopping/shutdown", ""},
			moment{46, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"unattended, and the only one", enforced(), []moment{
			{0, ownerStarted, "Registered", ""},
			{1, takerCame, "Registered", ""},
			{2, podStarts, "Active 7=Stopping/shutdown", "VMStarted checkMemlock(7) VMUnattended VMShutdown askPod(7)"},
		}},
		{"unattended, beside one that may stay", enforced(), listened(podStarts,
			moment{17, tie.TermsChanged{Terms: withTerms(func(t *tie.Terms) { t.StopHung = false })}, "Active 7=Running/none", "LauncherHung"},
			moment{18, tie.VMStarted{VM: podVM(8)}, "Active 7=Running/none 8=Stopping/term", "VMStarted checkMemlock(8) VMUnattended VMTerminated terminate(8)"},
		)},
		{"a hung launcher's next VM is not the pod's to end", enforced(), listened(podStarts,
			moment{16, due{}, "Draining 7=Stopping/shutdown", "LauncherHung VMShutdown askPod(7)"},
			moment{17, vmEnded, "Draining", "VMGone look"},
			moment{18, tie.VMStarted{VM: podVM(8)}, "Draining 8=Stopping/term", "VMStarted checkMemlock(8) VMTerminated terminate(8)"},
		)},
		{"what starts after the launcher's end is not the pod's to end", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, tie.VMStarted{VM: podVM(8)}, "Draining 7=Stopping/shutdown 8=Stopping/term", "VMStarted checkMemlock(8) VMTerminated terminate(8)"},
			moment{7, tie.VMStarted{VM: nodeVM(9)}, "Draining 7=Stopping/shutdown 8=Stopping/term 9=Stopping/shutdown", "VMStarted checkMemlock(9) VMShutdown shutdown(9)"},
		)},
	})
}

func TestTieTakerComesAndGoes(t *testing.T) {
	refused := errors.New("refused")
	runScenarios(t, []scenario{
		{"is back in time", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, takerLeft(2), "Draining 7=Stopping/shutdown", ""},
			moment{7, takerCame, "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"stays away", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, takerLeft(2), "Draining 7=Stopping/shutdown", ""},
			moment{8, due{}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
			moment{9, takerCame, "Draining 7=Stopping/term", ""},
		)},
		{"stays away from a launcher that hangs", enforced(), listened(podStarts,
			moment{16, due{}, "Draining 7=Stopping/shutdown", "LauncherHung VMShutdown askPod(7)"},
			moment{17, takerLeft(2), "Draining 7=Stopping/shutdown", ""},
			moment{19, due{}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
		)},
		{"coming and going puts nothing off", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{33, takerLeft(15), "Draining 7=Stopping/shutdown", ""},
			moment{34, takerCame, "Draining 7=Stopping/shutdown", ""},
			moment{34, takerLeft(15), "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"another launcher of the pod lives", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, takerLeft(0), "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
		)},
		{"node-level: libvirt has what is left of the time", enforced(), listened(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, takerLeft(2), "Draining 7=Stopping/shutdown", ""},
			moment{8, due{}, "Draining 7=Stopping/shutdown", "VMShutdown shutdown(7)"},
			moment{9, takerCame, "Draining 7=Stopping/shutdown", ""},
			moment{10, takerLeft(2), "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"node-level: nor can libvirt", enforced(), listened(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, takerLeft(0), "Draining 7=Stopping/shutdown", "VMShutdown shutdown(7)"},
			moment{7, tie.ActionFailed{Action: tie.ShutdownByLibvirt{VM: nodeVM(7)}, Err: refused}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
		)},
		{"comes when libvirt was asked", enforced(), attended(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown shutdown(7)"},
			moment{6, takerCame, "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"has just left, and is waited for", enforced(), listened(podStarts,
			moment{4, takerLeft(15), "Active 7=Running/none", ""},
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{19, due{}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
		)},
		{"left long ago", noWatchdog(), listened(podStarts,
			moment{4, takerLeft(2), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
		)},
	})
}

func TestTieTakerAndOthers(t *testing.T) {
	fence := withTerms(func(t *tie.Terms) { t.ProofOnly = true })
	runScenarios(t, []scenario{
		{"a lease holds the request back", enforced(), listened(podStarts,
			moment{5, leased(20), "Active 7=Running/none", ""},
			moment{6, ownerEnded, "Active 7=Running/none", ""},
			moment{25, due{}, "Draining 7=Stopping/shutdown", "LeaseExpired OwnerGone VMShutdown askPod(7)"},
			moment{26, leased(20), "Draining 7=Stopping/shutdown", ""},
			moment{46, due{}, "Draining 7=Stopping/shutdown", ""},
			moment{55, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"observe mode asks nobody", observed(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Running/none", "OwnerGone WouldStop"},
			moment{99, ticked, "Draining 7=Running/none", ""},
		)},
		{"observe mode is entered meanwhile", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, tie.TermsChanged{Terms: observed()}, "Draining 7=Running/none", "WouldStop"},
		)},
		{"the fence asks no pod", fence, listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
		)},
		{"node-level: the fence asks libvirt", fence, listened(nodeStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown shutdown(7)"},
		)},
		{"the fence leaves its time to what was begun", enforced(), listened(podStarts,
			moment{5, ownerEnded, "Draining 7=Stopping/shutdown", "OwnerGone VMShutdown askPod(7)"},
			moment{6, tie.TermsChanged{Terms: fence}, "Draining 7=Stopping/shutdown", ""},
			moment{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
	})
}
