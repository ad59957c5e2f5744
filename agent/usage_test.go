package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

func TestUsageSampler(t *testing.T) {
	used := map[host.Process]host.Usage{
		host.ProcessAt(1, 7): {Resident: 4 << 30, Locked: 3 << 30, Pinned: 1 << 20,
			CPU: time.Minute},
	}
	s := &usageSampler{logger: discard, read: func(p host.Process) (host.Usage, error) {
		u, ok := used[p]
		if !ok {
			return u, host.ErrGone
		}
		return u, nil
	}}
	s.iommufd = func(host.Process) (bool, error) { return false, nil }
	launchers := []registry.Launcher{{Launcher: agentapi.Launcher{
		VMs: []agentapi.VM{{PID: 1, StartTime: 7}, {PID: 2, StartTime: 8}}}}}
	sampled := func(at time.Duration) []agentapi.VM {
		s.sample(launchers, time.Unix(0, 0).Add(at))
		shown := []agentapi.Launcher{launchers[0].Launcher}
		s.fill(shown)
		return shown[0].VMs
	}
	want := agentapi.Usage{Memory: 4 << 30, Locked: 3 << 30, Pinned: 1 << 20,
		PinnedPer: agentapi.PerProcess}
	if diff := cmp.Diff([]agentapi.VM{{PID: 1, StartTime: 7, Usage: &want},
		{PID: 2, StartTime: 8}}, sampled(0)); diff != "" {
		t.Errorf("first sample (-want +got):\n%s", diff)
	}

	u := used[host.ProcessAt(1, 7)]
	u.CPU += 15 * time.Second
	used[host.ProcessAt(1, 7)] = u
	if got := sampled(10 * time.Second)[0].Usage; got.CPU == nil || *got.CPU != 1500 {
		t.Errorf("15 s of CPU in 10 s: %+v, want 1500 thousandths", got)
	}

	used = nil
	if got := sampled(20 * time.Second)[0].Usage; got != nil {
		t.Errorf("ended process: %+v, want no sample", got)
	}
}
