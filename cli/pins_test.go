package cli

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// pinningVM is a launcher with two VM processes. The kernel counts the pages of the second one per
// process.
func pinningVM(per agentapi.PinnedPer) agentapi.Launcher {
	l := usedVM()
	second := l.VMs[0]
	second.PID = 44
	l.VMs = append(l.VMs, second)
	l.VMs[0].Usage = &agentapi.Usage{Memory: 4 << 30, Pinned: 4 << 30, PinnedPer: per}
	return l
}

// top and inspect name a VM process whose pinned pages the kernel counts per user, and one for
// which the agent does not know it.
func TestPinsPerUser(t *testing.T) {
	for per, want := range map[agentapi.PinnedPer]string{
		agentapi.PerProcess: "",
		agentapi.PerUser: "process 43 has 4Gi pinned by iommufd, which the kernel counts per user: " +
			"the memory lock must cover all VMs of the user",
		agentapi.PerEither: "process 43 has 4Gi pinned by iommufd, and has locked memory as well: " +
			"the kernel counts the pages per process or per user",
		agentapi.PerUnknown: "process 43 has 4Gi pinned, and the agent cannot see whether by iommufd",
	} {
		a := startAgent(t, pinningVM(per))
		top := run(t.Context(), t, a.socket, "top", "-o", "wide")
		if top.code != ExitOK || !strings.Contains(top.out, "PINNED PER") ||
			!strings.HasSuffix(top.out, "  "+string(per)+"\n") {
			t.Errorf("top: %+v, want PINNED PER %s", top, per)
		}
		inspect := run(t.Context(), t, a.socket, "inspect", "vfio")
		if want == "" {
			if top.errOut != "" || strings.Contains(inspect.out, "Pinned memory") {
				t.Errorf("%s: top %+v, inspect %+v, want no warning", per, top, inspect)
			}
			continue
		}
		if !strings.Contains(top.errOut, "vms/vfio: "+want) {
			t.Errorf("%s: top's error output %q, want %q", per, top.errOut, want)
		}
		if !strings.Contains(inspect.out, "Pinned memory:\n  "+want) {
			t.Errorf("%s: inspect %s, want %q", per, inspect.out, want)
		}
	}
}
