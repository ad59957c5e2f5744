package tie_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestLease(t *testing.T) {
	runScenarios(t, []scenario{
		{"holds back a stop until it expires", enforceTerms(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{
				25, due{},
				"Draining 7=Stopping/term", "LeaseExpired OwnerGone VMTerminated terminate(7)",
			},
		)},
		{"ends early", enforceTerms(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{7, lease(0), "Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)"},
		)},
		{"is extended", enforceTerms(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{7, lease(30), "Active 7=Running/none", ""},
			event{
				37, due{},
				"Draining 7=Stopping/term", "LeaseExpired OwnerGone VMTerminated terminate(7)",
			},
		)},
		{"that held nothing back ends without an Event", noWatchdog(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{25, due{}, "Active 7=Running/none", ""},
		)},
		{"holds back the stop request of the pod", noWatchdog(), withVM(nodeStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, stopRequested, "Active 7=Running/none", "StopRequested"},
			event{
				25, due{},
				"Draining 7=Stopping/shutdown", "LeaseExpired VMShutdown libvirtShutdown(7)",
			},
		)},
		{"the VM migrates away after the stop request", enforceTerms(), withVM(podStarts,
			event{5, lease(60), "Active 7=Running/none", ""},
			event{6, stopRequested, "Active 7=Running/none", "StopRequested"},
			event{20, vmEnded, "Draining", "VMGone scan"},
			event{20, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		)},
		{"the migration fails after the stop request", noWatchdog(), withVM(podStarts,
			event{5, lease(60), "Active 7=Running/none", ""},
			event{6, stopRequested, "Active 7=Running/none", "StopRequested"},
			event{20, lease(0), "Draining 7=Stopping/shutdown", ""},
			event{50, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"without a VM process the stop request is confirmed", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, lease(60), "Registered", ""},
			{2, stopRequested, "Draining", "StopRequested scan"},
			{3, nothingFound{}, "Done", "confirmStop StopConfirmed"},
		}},
		{"excuses a missing heartbeat", enforceTerms(), withVM(podStarts,
			event{5, lease(60), "Active 7=Running/none", ""},
			event{64, timePassed, "Active 7=Running/none", ""},
			event{65, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
		)},
		{"a VM process starts unattended meanwhile", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, lease(5), "Registered", ""},
			{2, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended"},
			{6, due{}, "Active 7=Stopping/term", "LeaseExpired VMTerminated terminate(7)"},
		}},
		{"a heartbeat follows an unattended start", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, lease(5), "Registered", ""},
			{2, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7) VMUnattended"},
			{3, heartbeat, "Active 7=Running/none", ""},
			{6, due{}, "Active 7=Running/none", "LeaseExpired"},
		}},
		{"a VM process starts after the end of the launcher", enforceTerms(), withVM(podStarts,
			event{
				3, launcherEnded,
				"Draining 7=Stopping/term", "OwnerGone VMTerminated terminate(7)",
			},
			event{4, lease(5), "Draining 7=Stopping/term", ""},
			event{
				5, tie.VMStarted{VM: nodeVM(8)},
				"Draining 7=Stopping/term 8=Running/none", "VMStarted checkMemlock(8)",
			},
			event{
				9, due{},
				"Draining 7=Stopping/term 8=Stopping/shutdown", "LeaseExpired VMShutdown " +
					"libvirtShutdown(8)",
			},
		)},
	})
}

// The time under the pod's lease after the launcher's end counts as a part of the grace period.
func TestPodLeaseAndGracePeriod(t *testing.T) {
	long := withTerms(func(t *tie.Terms) { t.GracePeriod = time.Hour })
	const expired = "LeaseExpired OwnerGone VMShutdown podShutdown(7)"
	runScenarios(t, []scenario{
		{"the pod's lease before a long grace period", long, withStopHandler(podStarts,
			event{5, podLease(600), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{605, due{}, "Draining 7=Stopping/shutdown", expired},
			event{3606, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the guest gets three minutes", withTerms(func(t *tie.Terms) {
			t.GracePeriod = 10 * time.Minute
		}), withStopHandler(podStarts,
			event{5, podLease(600), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{605, due{}, "Draining 7=Stopping/shutdown", expired},
			event{785, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the other lease counts as none", long, withStopHandler(podStarts,
			event{5, lease(600), "Active 7=Running/none", ""},
			event{6, podLease(700), "Active 7=Running/none", ""},
			event{7, launcherEnded, "Active 7=Running/none", ""},
			event{706, due{}, "Draining 7=Stopping/shutdown", expired},
			event{4205, due{}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
	})
}

// The pod's own lease counts beside the other lease. The pod cannot change the other one.
func TestPodLease(t *testing.T) {
	expired := "LeaseExpired OwnerGone VMTerminated terminate(7)"
	ended := "OwnerGone VMTerminated terminate(7)"
	runScenarios(t, []scenario{
		{"holds back a stop until it expires", enforceTerms(), withVM(podStarts,
			event{5, podLease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{25, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"ends early", enforceTerms(), withVM(podStarts,
			event{5, podLease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{7, podLease(0), "Draining 7=Stopping/term", ended},
		)},
		{"does not shorten the other", enforceTerms(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, podLease(2), "Active 7=Running/none", ""},
			event{7, launcherEnded, "Active 7=Running/none", ""},
			event{25, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"does not end the other", enforceTerms(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, podLease(30), "Active 7=Running/none", ""},
			event{7, podLease(0), "Active 7=Running/none", ""},
			event{8, launcherEnded, "Active 7=Running/none", ""},
			event{25, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"holds after the end of the other", enforceTerms(), withVM(podStarts,
			event{5, lease(10), "Active 7=Running/none", ""},
			event{6, podLease(30), "Active 7=Running/none", ""},
			event{7, launcherEnded, "Active 7=Running/none", ""},
			event{16, timePassed, "Active 7=Running/none", ""},
			event{36, due{}, "Draining 7=Stopping/term", expired},
		)},
		{"ends with the other", enforceTerms(), withVM(podStarts,
			event{5, podLease(30), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{7, lease(0), "Draining 7=Stopping/term", ended},
		)},
		{"holds back the stop request of the pod", noWatchdog(), withVM(nodeStarts,
			event{5, podLease(20), "Active 7=Running/none", ""},
			event{6, stopRequested, "Active 7=Running/none", "StopRequested"},
			event{
				7, podLease(0),
				"Draining 7=Stopping/shutdown", "VMShutdown libvirtShutdown(7)",
			},
		)},
	})
}

// A VM process that starts within the lease of an ended launcher is unattended, and the lease
// protects it, too. Without a VM process, the lease waits for the VM of a migration.
func TestLeaseOfAnEndedLauncher(t *testing.T) {
	another := tie.VMStarted{VM: podVM(8)}
	expired := "LeaseExpired OwnerGone VMTerminated terminate(7) VMTerminated terminate(8)"
	runScenarios(t, []scenario{
		{"a VM process starts", enforceTerms(), withVM(podStarts,
			event{5, lease(20), "Active 7=Running/none", ""},
			event{6, launcherEnded, "Active 7=Running/none", ""},
			event{
				7, another,
				"Active 7=Running/none 8=Running/none", "VMStarted checkMemlock(8) VMUnattended",
			},
			event{25, due{}, "Draining 7=Stopping/term 8=Stopping/term", expired},
		)},
		{"no VM process", enforceTerms(), []event{
			{0, launcherStarted, "Registered", ""},
			{1, lease(20), "Registered", ""},
			{2, launcherEnded, "Registered", ""},
			{21, due{}, "Draining", "LeaseExpired scan"},
			{21, nothingFound{}, "Done over", ""},
		}},
	})
}
