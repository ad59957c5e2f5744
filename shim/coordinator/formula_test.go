package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

func formulaConfig(t *testing.T, follow bool) func(*coordinator.Config) {
	t.Helper()
	version, err := kubevirt.ParseVersion("1.7")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *coordinator.Config) {
		c.Overhead, c.Follow, c.Formula = nil, follow, &target.Formula{Version: version}
	}
}

// Of 3Gi the launcher takes 260 MiB for processes, an I/O thread and the future four vCPUs, and 5.5
// MiB for page tables. The guest takes blocks of 2 MiB.
func TestFollowByFormula(t *testing.T) {
	inBubble(t, formulaConfig(t, true), func(t *testing.T, r *rig) {
		time.Sleep(time.Second)
		if s := r.state(t); s.Memory.Devices[0].Current != uint64((2806-1024)*mi) ||
			s.VCPUs.Plugged != 4 {
			t.Errorf("memory %+v, vCPUs %+v", s.Memory, s.VCPUs)
		}
	})
}

// More vCPUs leave less memory to the guest.
func TestFormulaBounds(t *testing.T) {
	inBubble(t, formulaConfig(t, false), func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2806 * mi })
		time.Sleep(time.Second)
		r.agent.lastReport(t, podapi.StateDone)
		r.setDesired(func(w *podapi.Desired) { w.Limits.CPU, w.VCPUs = 8000, 8 })
		time.Sleep(time.Second)
		refused := r.agent.lastReport(t, podapi.StateRefused)
		if want := `memory.resize.mooring.dev: "2806Mi": want at most 2774Mi: the memory limit ` +
			`is 3Gi`; !strings.Contains(
			refused.Error, want) {
			t.Errorf("report %+v, want %s", refused, want)
		}
	})
}

func TestOverheadIsRequired(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		config := r.config
		config.Overhead = nil
		if _, err := coordinator.New(config); err == nil ||
			!strings.Contains(err.Error(), "Overhead or Formula is required") {
			t.Errorf("got %v", err)
		}
	})
}
