package agent

import (
	"fmt"
	"io/fs"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

func TestPinnedPer(t *testing.T) {
	open := func(host.Process) (bool, error) { return true, nil }
	closed := func(host.Process) (bool, error) { return false, nil }
	hidden := func(host.Process) (bool, error) {
		return false, fmt.Errorf("descriptors: %w", fs.ErrPermission)
	}
	pins, both := host.Usage{Pinned: 4 << 30}, host.Usage{Pinned: 4 << 30, Locked: 4 << 30}
	for name, c := range map[string]struct {
		used     host.Usage
		iommufd  func(host.Process) (bool, error)
		launcher registry.Launcher
		domain   string
		want     agentapi.PinnedPer
	}{
		"VFIO without iommufd": {used: host.Usage{Locked: 4 << 30}, iommufd: hidden, want: ""},
		"iommufd per process, or per user in locked memory": {used: both, iommufd: open,
			want: agentapi.PerEither},
		"in locked memory, descriptors hidden": {used: both, iommufd: hidden,
			want: agentapi.PerUnknown},
		"in locked memory, with the device of the launcher": {used: both, iommufd: hidden,
			launcher: registry.Launcher{PinsByIOMMUFD: true}, want: agentapi.PerEither},
		"vDPA in locked memory": {used: both, iommufd: closed, want: agentapi.PerProcess},
		"iommufd per user":      {used: pins, iommufd: open, want: agentapi.PerUser},
		"vDPA":                  {used: pins, iommufd: closed, want: agentapi.PerProcess},
		"vDPA or iommufd":       {used: pins, iommufd: hidden, want: agentapi.PerUnknown},
		"device of the launcher": {used: pins, iommufd: hidden,
			launcher: registry.Launcher{PinsByIOMMUFD: true}, want: agentapi.PerUser},
		"device of the launcher, without a descriptor": {used: pins, iommufd: closed,
			launcher: registry.Launcher{PinsByIOMMUFD: true}, want: agentapi.PerProcess},
		"device of the launcher of a node-level VM": {used: pins, iommufd: hidden, domain: "vm-1",
			launcher: registry.Launcher{PinsByIOMMUFD: true}, want: agentapi.PerUnknown},
		"CAP_IPC_LOCK": {used: host.Usage{Pinned: 4 << 30, IPCLock: true}, iommufd: open, want: ""},
	} {
		s := &usageSampler{iommufd: c.iommufd, logger: discard}
		got := s.pinnedPer(&c.launcher, agentapi.VM{PID: 1, Domain: c.domain}, c.used)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
