package tie_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestTieHung(t *testing.T) {
	hungStop := withTerms(func(t *tie.Terms) { t.StopUnattended = false })
	runScenarios(t, []scenario{
		{"report: told once for each silence", reporting(), attended(podStarts,
			moment{16, due{}, "Active 7=Running/none", "LauncherHung"},
			moment{60, ticked, "Active 7=Running/none", ""},
			moment{61, beaten, "Active 7=Running/none", ""},
			moment{76, due{}, "Active 7=Running/none", "LauncherHung"},
		)},
		{"stop, which a heartbeat does not take back", hungStop, attended(podStarts,
			moment{16, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
			moment{17, beaten, "Draining 7=Stopping/term", ""},
			moment{18, vmEnded, "Draining", "VMGone look"},
			moment{19, nothingLeft{}, "Done", ""},
			moment{20, ownerEnded, "Draining", "look"},
		)},
		{"the launcher comes back and starts its VM again", hungStop, attended(podStarts,
			moment{16, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
			moment{17, vmEnded, "Draining", "VMGone look"},
			moment{17, nothingLeft{}, "Done", ""},
			moment{18, beaten, "Done", ""},
			moment{19, podStarts, "Active 7=Running/none", "VMStarted checkMemlock(7)"},
		)},
		{"node-level, stop: the guest is asked", hungStop, attended(nodeStarts,
			moment{16, due{}, "Draining 7=Stopping/shutdown", "LauncherHung VMShutdown shutdown(7)"},
		)},
		{"a silence is no death: nothing is stopped without terms", reporting(), attended(nodeStarts,
			moment{100_000, ticked, "Active 7=Running/none", "LauncherHung"},
			moment{200_000, ticked, "Active 7=Running/none", ""},
		)},
		{"the terms come to say stop", reporting(), attended(podStarts,
			moment{16, due{}, "Active 7=Running/none", "LauncherHung"},
			moment{17, tie.TermsChanged{Terms: enforced()}, "Draining 7=Stopping/term", "VMTerminated terminate(7)"},
		)},
		{"the terms come to allow for more, and that is over too", reporting(), attended(podStarts,
			moment{16, due{}, "Active 7=Running/none", "LauncherHung"},
			moment{17, tie.TermsChanged{Terms: withTerms(func(t *tie.Terms) { t.Watchdog = 40 * time.Second })}, "Active 7=Running/none", ""},
			moment{41, due{}, "Draining 7=Stopping/term", "LauncherHung VMTerminated terminate(7)"},
		)},
		{"before the first process is known, nobody hangs", enforced(), []moment{
			{99, ticked, "Registered", ""},
		}},
	})
}
