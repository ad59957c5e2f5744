package tie_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestHungLauncher(t *testing.T) {
	hungStop := withTerms(func(t *tie.Terms) { t.StopUnattended = false })
	runScenarios(t, []scenario{
		{"report: one Event per silence", reportTerms(), withVM(podStarts,
			event{16, due{}, "Active 7=Running/none", "LauncherHung"},
			event{60, timePassed, "Active 7=Running/none", ""},
			event{61, heartbeat, "Active 7=Running/none", ""},
			event{76, due{}, "Active 7=Running/none", "LauncherHung"},
		)},
		{"stop: a later heartbeat does not cancel it", hungStop, withVM(podStarts,
			event{16, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
			event{17, heartbeat, "Draining 7=Stopping/term", ""},
			event{18, vmEnded, "Draining", "VMGone scan"},
			event{19, nothingFound{}, "Done", ""},
			event{20, launcherEnded, "Draining", "scan"},
		)},
		{"the launcher recovers and starts its VM again", hungStop, withVM(podStarts,
			event{16, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
			event{17, vmEnded, "Draining", "VMGone scan"},
			event{17, nothingFound{}, "Done", ""},
			event{18, heartbeat, "Done", ""},
			event{19, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
		)},
		{"node-level, stop: libvirt asks the guest", hungStop, withVM(nodeStarts,
			event{
				16, due{},
				"Draining 7=Stopping/shutdown", "LauncherHung VMShutdown libvirtShutdown(7)",
			},
		)},
		{"silence alone stops nothing", reportTerms(), withVM(nodeStarts,
			event{100_000, timePassed, "Active 7=Running/none", "LauncherHung"},
			event{200_000, timePassed, "Active 7=Running/none", ""},
		)},
		{"the terms change to stop", reportTerms(), withVM(podStarts,
			event{16, due{}, "Active 7=Running/none", "LauncherHung"},
			event{
				17, tie.TermsChanged{Terms: enforceTerms()},
				"Draining 7=Stopping/term", "VMTerminated terminate(7)",
			},
		)},
		{"the terms allow more time, and that expires, too", reportTerms(), withVM(podStarts,
			event{16, due{}, "Active 7=Running/none", "LauncherHung"},
			event{
				17, tie.TermsChanged{Terms: withTerms(func(t *tie.Terms) {
					t.Watchdog = 40 * time.Second
				})},
				"Active 7=Running/none", "",
			},
			event{41, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
		)},
		{"an unknown launcher process cannot hang", enforceTerms(), []event{
			{99, timePassed, "Registered", ""},
		}},
	})
}
