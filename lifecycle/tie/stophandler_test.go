package tie_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

var handlerConnected = tie.StopHandlerConnected{}

func handlerDisconnected(seconds int) tie.StopHandlerDisconnected {
	return tie.StopHandlerDisconnected{Wait: time.Duration(seconds) * time.Second}
}

// withStopHandler is withVM and a connected stop handler.
func withStopHandler(starts tie.VMStarted, then ...event) []event {
	return withVM(starts, append([]event{{3, handlerConnected, "Active 7=Running/none", ""}},
		then...)...)
}

func TestStopHandler(t *testing.T) {
	runScenarios(t, []scenario{
		{"the pod shuts its guest down", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{20, vmEnded, "Draining", "VMGone scan"},
			event{20, nothingFound{}, "Done over", ""},
		)},
		{"the stop handler does nothing", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			event{45, due{}, "Draining 7=Killing/kill", "VMKilled kill(7)"},
		)},
		{"node-level: the pod instead of libvirt", enforceTerms(), withStopHandler(nodeStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"node-level: the pod requests the stop", enforceTerms(), withStopHandler(nodeStarts,
			event{
				5, stopRequested,
				"Draining 7=Stopping/shutdown", "StopRequested VMShutdown podShutdown(7)",
			},
		)},
		{"no request for a stop that the pod requested", enforceTerms(), withStopHandler(podStarts,
			event{5, stopRequested, "Draining 7=Stopping/shutdown", "StopRequested"},
			event{6, launcherEnded, "Draining 7=Stopping/shutdown", ""},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the launcher hangs", enforceTerms(), withStopHandler(podStarts,
			event{
				16, due{},
				"Draining 7=Stopping/shutdown", "LauncherHung VMShutdown podShutdown(7)",
			},
			event{17, heartbeat, "Draining 7=Stopping/shutdown", ""},
			event{46, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the only VM process is unattended", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, handlerConnected, "Registered", ""},
			{
				2, podStarts,
				"Active 7=Stopping/shutdown", "VMStarted checkMemlock(7) VMUnattended VMShutdown " +
					"podShutdown(7)",
			},
		}},
		{"an unattended VM process beside an attended one", enforceTerms(),
			withStopHandler(podStarts,
				event{
					17, tie.TermsChanged{Terms: withTerms(func(t *tie.Terms) {
						t.StopHung = false
					})},
					"Active 7=Running/none", "LauncherHung",
				},
				event{
					18, tie.VMStarted{VM: podVM(8)},
					"Active 7=Running/none 8=Stopping/term", "VMStarted checkMemlock(8) " +
						"VMUnattended VMTerminated terminate(8)",
				},
			)},
		{"the next VM of a hung launcher gets SIGTERM", enforceTerms(), withStopHandler(podStarts,
			event{
				16, due{},
				"Draining 7=Stopping/shutdown", "LauncherHung VMShutdown podShutdown(7)",
			},
			event{17, vmEnded, "Draining", "VMGone scan"},
			event{
				18, tie.VMStarted{VM: podVM(8)},
				"Draining 8=Stopping/term", "VMStarted checkMemlock(8) VMTerminated terminate(8)",
			},
		)},
		{"a VM process from after the end of the launcher gets SIGTERM", enforceTerms(),
			withStopHandler(podStarts,
				event{
					5, launcherEnded,
					"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
				},
				event{
					6, tie.VMStarted{VM: podVM(8)},
					"Draining 7=Stopping/shutdown 8=Stopping/term", "VMStarted checkMemlock(8) " +
						"VMTerminated terminate(8)",
				},
				event{
					7, tie.VMStarted{VM: nodeVM(9)},
					"Draining 7=Stopping/shutdown 8=Stopping/term 9=Stopping/shutdown",
					"VMStarted checkMemlock(9) VMShutdown libvirtShutdown(9)",
				},
			)},
	})
}

func TestStopHandlerReconnects(t *testing.T) {
	runScenarios(t, []scenario{
		{"reconnects in time", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{6, handlerDisconnected(2), "Draining 7=Stopping/shutdown", ""},
			event{7, handlerConnected, "Draining 7=Stopping/shutdown", ""},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"stays away", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{6, handlerDisconnected(2), "Draining 7=Stopping/shutdown", ""},
			event{8, due{}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
			event{9, handlerConnected, "Draining 7=Stopping/term", ""},
		)},
		{"stays away from a launcher that hangs", enforceTerms(), withStopHandler(podStarts,
			event{
				16, due{},
				"Draining 7=Stopping/shutdown", "LauncherHung VMShutdown podShutdown(7)",
			},
			event{17, handlerDisconnected(2), "Draining 7=Stopping/shutdown", ""},
			event{19, due{}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
		)},
		{"reconnecting does not extend the grace period", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{33, handlerDisconnected(15), "Draining 7=Stopping/shutdown", ""},
			event{34, handlerConnected, "Draining 7=Stopping/shutdown", ""},
			event{34, handlerDisconnected(15), "Draining 7=Stopping/shutdown", ""},
			event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"another launcher of the pod lives", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{
				6, handlerDisconnected(0),
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
		)},
		{"node-level: libvirt gets the rest of the grace period", enforceTerms(),
			withStopHandler(nodeStarts,
				event{
					5, launcherEnded,
					"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
				},
				event{6, handlerDisconnected(2), "Draining 7=Stopping/shutdown", ""},
				event{8, due{}, "Draining 7=Stopping/shutdown", "VMShutdown libvirtShutdown(7)"},
				event{9, handlerConnected, "Draining 7=Stopping/shutdown", ""},
				event{10, handlerDisconnected(2), "Draining 7=Stopping/shutdown", ""},
				event{35, timePassed, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			)},
		{"node-level: libvirt fails, too", enforceTerms(), withStopHandler(nodeStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{
				6, handlerDisconnected(0),
				"Draining 7=Stopping/shutdown", "VMShutdown libvirtShutdown(7)",
			},
			event{
				7, askFailed(1, true),
				"Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)",
			},
		)},
		{"connects after the request to libvirt", enforceTerms(), withVM(nodeStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown libvirtShutdown(7)",
			},
			event{6, handlerConnected, "Draining 7=Stopping/shutdown", ""},
			event{35, timePassed, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"disconnected a moment ago", enforceTerms(), withStopHandler(podStarts,
			event{4, handlerDisconnected(15), "Active 7=Running/none", ""},
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{19, due{}, "Draining 7=Stopping/term", "VMShutdown VMTerminated terminate(7)"},
		)},
		{"disconnected long ago", noWatchdog(), withStopHandler(podStarts,
			event{4, handlerDisconnected(2), "Active 7=Running/none", ""},
			event{
				6, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
		)},
	})
}

func TestStopHandlerAndOthers(t *testing.T) {
	fence := withTerms(func(t *tie.Terms) { t.ProofOnly = true })
	runScenarios(t, []scenario{
		{"a lease holds back the request", enforceTerms(), withStopHandler(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{
				25, due{},
				"Draining 7=Stopping/shutdown", "LeaseExpired OwnerGone VMShutdown podShutdown(7)",
			},
			event{26, lease(20), "Draining 7=Stopping/shutdown", ""},
			event{46, due{}, "Draining 7=Stopping/shutdown", ""},
			event{55, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"observe mode sends no request", observeTerms(), withStopHandler(podStarts,
			event{5, launcherEnded, "Draining 7=Running/none", "OwnerGone WouldStop"},
			event{99, timePassed, "Draining 7=Running/none", ""},
		)},
		{"the policy changes to observe mode", enforceTerms(), withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
			},
			event{
				6, tie.TermsChanged{Terms: observeTerms()},
				"Draining 7=Running/none", "WouldStop",
			},
		)},
		{"the fence asks no pod", fence, withStopHandler(podStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
		)},
		{"node-level: the fence asks libvirt", fence, withStopHandler(nodeStarts,
			event{
				5, launcherEnded,
				"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown libvirtShutdown(7)",
			},
		)},
		{"the fence lets the grace period of a begun stop end", enforceTerms(),
			withStopHandler(podStarts,
				event{
					5, launcherEnded,
					"Draining 7=Stopping/shutdown", "OwnerGone VMShutdown podShutdown(7)",
				},
				event{6, tie.TermsChanged{Terms: fence}, "Draining 7=Stopping/shutdown", ""},
				event{35, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
			)},
	})
}
