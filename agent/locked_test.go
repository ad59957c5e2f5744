package agent

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// lockingLauncher has a memory lock, a memory limit (0: none) and a VM process for each locked
// amount. Half of its pages are pinned as well.
func lockingLauncher(lock host.Limit, memory int64, locked ...int64) registry.Launcher {
	l := registry.Launcher{Demand: &lock, Given: registry.Given{Memlock: &lock},
		MemoryLimit: memory}
	l.State = agentapi.StateRunning
	for i, bytes := range locked {
		l.VMs = append(l.VMs, agentapi.VM{PID: i + 1, StartTime: 7,
			Usage: &agentapi.Usage{Locked: bytes, Pinned: bytes / 2}})
	}
	return l
}

func TestLockedMemory(t *testing.T) {
	const gi = 1 << 30
	unsampled, free := lockingLauncher(2*gi, 0, gi), lockingLauncher(2*gi, 0, gi)
	unsampled.VMs[0].Usage, free.Demand = nil, nil
	plugged := lockingLauncher(2*gi, 0, 2*gi)
	plugged.Live = &registry.Live{Process: host.ProcessAt(1, 7).ID(), Observed: 4 * gi}
	for name, c := range map[string]struct {
		launchers []registry.Launcher
		want      metrics.Locked
	}{
		"none":             {nil, metrics.Locked{}},
		"no memory lock":   {[]registry.Launcher{free}, metrics.Locked{}},
		"no sample":        {[]registry.Launcher{unsampled}, metrics.Locked{}},
		"half of its lock": {[]registry.Launcher{lockingLauncher(2*gi, 0, gi)}, locked(gi, 0.5, 0)},
		"a lock that libvirt raised for a device": {[]registry.Launcher{plugged},
			locked(2*gi, 0.5, 0)},
		"half of its limit": {[]registry.Launcher{lockingLauncher(8*gi, 2*gi, gi)}, locked(gi, 0.5, 0)},
		"two processes": {[]registry.Launcher{lockingLauncher(gi, 2*gi, gi/2, gi)},
			locked(gi+gi/2, 1, 1)},
		"an unlimited lock": {[]registry.Launcher{lockingLauncher(host.Unlimited, 4*gi, gi)},
			locked(gi, 0.25, 0)},
		"an unlimited lock without a limit": {[]registry.Launcher{
			lockingLauncher(host.Unlimited, 0, gi)}, metrics.Locked{}},
		"most of a large lock": {[]registry.Launcher{lockingLauncher(65*gi, 0, 64*gi)},
			locked(64*gi, 64./65, 0)},
		"little room in a large lock": {[]registry.Launcher{
			lockingLauncher(65*gi, 0, 65*gi-nearRoom+1)}, locked(65*gi-nearRoom+1, 0.998, 1)},
		"all launchers": {[]registry.Launcher{lockingLauncher(2*gi, 0, gi),
			lockingLauncher(4*gi, 0, 4*gi), lockingLauncher(4*gi, 4*gi, 4*gi)}, locked(9*gi, 1, 2)},
	} {
		got := lockedBy(c.launchers)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 0.001)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if math.IsNaN(got.Ratio) {
			t.Errorf("%s: ratio is no number", name)
		}
	}
}

func locked(bytes int64, ratio float64, near int) metrics.Locked {
	return metrics.Locked{Bytes: bytes, Ratio: ratio, NearLimit: near}
}
