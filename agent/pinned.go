package agent

import (
	"errors"
	"log/slog"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// pinnedPer returns the pages that the kernel compares with the memory lock of a VM process
// together with its pinned pages. iommufd counts each pinned page in VmPin. If it counts per
// process, it counts the page in VmLck as well (do_update_pinned in drivers/iommu/iommufd/pages.c).
// vDPA and RDMA count in VmPin only, always per process. VmLck also has the memory that a VM locks
// itself, so a VmLck no smaller than VmPin does not prove that iommufd counts per process.
//
// The agent sees descriptors of VM processes of other users only with CAP_SYS_PTRACE. Without it
// the devices of the launcher decide.
func (s *usageSampler) pinnedPer(
	l *registry.Launcher, vm agentapi.VM, used host.Usage,
) agentapi.PinnedPer {
	if used.Pinned == 0 || used.IPCLock {
		return ""
	}
	byIOMMUFD := agentapi.PerUser
	if used.Pinned <= used.Locked {
		byIOMMUFD = agentapi.PerEither
	}
	open, err := s.iommufd(processOf(vm))
	switch {
	case err == nil && open:
		return byIOMMUFD
	case err == nil:
		return agentapi.PerProcess
	case l.PinsByIOMMUFD && vm.Domain == "":
		return byIOMMUFD
	}
	if !errors.Is(err, host.ErrGone) {
		s.logger.Debug("cannot read whether a VM process uses iommufd", slog.Any("error", err))
	}
	return agentapi.PerUnknown
}
