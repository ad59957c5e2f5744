package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

const iommufdPage = "see docs/explanation/iommufd.md"

// userPins is the memory that iommufd has pinned for the processes of one user, where the kernel
// counts per user.
type userPins struct {
	uid       int
	processes int
	pinned    uint64     // bytes
	limit     host.Limit // the lowest RLIMIT_MEMLOCK of the processes
}

// near reports whether a further process with the average memory fails.
func (u userPins) near() bool {
	return u.limit != host.Unlimited && u.pinned+u.pinned/uint64(u.processes) > uint64(u.limit)
}

func (u userPins) String() string {
	return fmt.Sprintf("user %d: %s pinned by %d processes, lowest memory lock %s", u.uid,
		api.Bytes(u.pinned), u.processes, u.limit)
}

// iommufd checks the memory that iommufd pins. By default the kernel compares the sum of a user's
// processes with the memory lock of each, and all VMs of KubeVirt and libvirt have one user.
func iommufd(_ context.Context, s *survey) finding {
	pids, err := s.openIOMMUFDs()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return finding{Unknown, err.Error(), "only root sees the descriptors of processes", asRoot}
	case err != nil:
		return finding{Unknown, err.Error(), "the users of iommufd are not known", ""}
	case len(pids) == 0:
		return finding{OK, "no process uses iommufd", "memory locks apply to each process", ""}
	}
	users := s.pinsByUser(pids)
	if len(users) == 0 {
		return finding{OK, fmt.Sprintf("%d processes use iommufd, counted per process", len(pids)),
			"memory locks apply to each process", ""}
	}
	f := finding{Note, "", "the kernel counts the pinned memory of all VMs of a user together, " +
		"against the memory lock of each VM", iommufdPage}
	var found []string
	for _, u := range users {
		found = append(found, u.String())
		if u.near() {
			f.status = Problem
			f.means += "; a further VM of the user fails with ENOMEM"
		}
	}
	f.found = strings.Join(found, "; ")
	return f
}

// openIOMMUFDs returns the pids of processes with an open iommufd.
func (s *survey) openIOMMUFDs() ([]int, error) {
	if s.IOMMUFD == nil {
		return nil, errNotChecked
	}
	return s.IOMMUFD()
}

// pinsByUser adds up the pages of processes that the kernel counts per user. It skips ended
// processes.
func (s *survey) pinsByUser(pids []int) []userPins {
	users := map[int]userPins{}
	for _, pid := range pids {
		status, err := s.read(procPath(pid, "status"))
		if err != nil {
			continue
		}
		uid, pinned := pinnedPerUser(status)
		if pinned == 0 {
			continue
		}
		limits, _ := s.read(procPath(pid, "limits"))
		limit, ok := parseMemlock(limits)
		if !ok {
			limit.Soft = host.Unlimited
		}
		u, known := users[uid]
		if !known {
			u = userPins{uid: uid, limit: host.Unlimited}
		}
		u.processes++
		u.pinned += pinned
		u.limit = min(u.limit, limit.Soft)
		users[uid] = u
	}
	all := make([]userPins, 0, len(users))
	for _, u := range users {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b userPins) int { return cmp.Compare(a.uid, b.uid) })
	return all
}

// pinnedPerUser returns the user of a process from /proc/PID/status, and the bytes that iommufd has
// pinned for it per user. iommufd counts each pinned page in VmPin. If it counts per process, it
// counts the page in VmLck as well (do_update_pinned in drivers/iommu/iommufd/pages.c). A process
// with CAP_IPC_LOCK has no limit.
func pinnedPerUser(status string) (uid int, bytes uint64) {
	fields := map[string]string{}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		fields[name], _, _ = strings.Cut(strings.TrimSpace(value), " ")
	}
	owner, _, _ := strings.Cut(fields["Uid"], "\t")
	uid, err := strconv.Atoi(owner)
	capabilities, _ := strconv.ParseUint(fields["CapEff"], 16, 64)
	if err != nil || capabilities&(1<<capIPCLock) != 0 {
		return 0, 0
	}
	pinned, _ := strconv.ParseUint(fields["VmPin"], 10, 54)
	locked, _ := strconv.ParseUint(fields["VmLck"], 10, 54)
	return uid, (pinned - min(pinned, locked)) << 10
}
