package doctor

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// vm adds a VM process with an iommufd, pages in KiB and a memory lock in bytes.
func vm(pid, uid, pinned, locked int, capabilities, limit string) change {
	return func(m *Machine) {
		users := m.IOMMUFD
		m.IOMMUFD = func() ([]int, error) {
			pids, err := users()
			return append(pids, pid), err
		}
		status := fmt.Sprintf("Name:\tqemu\nUid:\t%d\t%[1]d\t%[1]d\t%[1]d\nVmLck:\t%8d kB\n"+
			"VmPin:\t%8d kB\nCapEff:\t%s\n", uid, locked, pinned, capabilities)
		limits := fmt.Sprintf("Max locked memory         %s %[1]s bytes \n", limit)
		m.Root.(fstest.MapFS)[fmt.Sprintf("proc/%d/status", pid)] =
			&fstest.MapFile{Data: []byte(status)}
		m.Root.(fstest.MapFS)[fmt.Sprintf("proc/%d/limits", pid)] =
			&fstest.MapFile{Data: []byte(limits)}
	}
}

// perUser adds a VM of KubeVirt's user whose pages the kernel counts per user.
func perUser(pid, gibibytes int, limit string) change {
	return vm(pid, 107, gibibytes<<20, 0, "0000000000000400", limit)
}

func TestIOMMUFD(t *testing.T) {
	const limit5Gi, limit9Gi = "5368709120", "9663676416"
	fails := func(err error) change {
		return func(m *Machine) { m.IOMMUFD = func() ([]int, error) { return nil, err } }
	}
	expect(t, map[string]expectation{
		"none":         {func(*Machine) {}, "iommufd", OK, "no process uses iommufd"},
		"not root":     {fails(fs.ErrPermission), "iommufd", Unknown, "run as root"},
		"unreadable":   {fails(fs.ErrInvalid), "iommufd", Unknown, "invalid"},
		"another node": {func(m *Machine) { m.IOMMUFD = nil }, "iommufd", Unknown, "not checked"},
		"per process": {vm(300, 107, 4<<20, 4<<20, "0", limit5Gi), "iommufd", OK,
			"1 processes use iommufd, counted per process"},
		"with CAP_IPC_LOCK": {vm(300, 0, 4<<20, 0, "000001ffffffffff", limit5Gi), "iommufd", OK,
			"counted per process"},
		"ended": {func(m *Machine) { m.IOMMUFD = func() ([]int, error) { return []int{1}, nil } },
			"iommufd", OK, "counted per process"},
		"per user with room": {perUser(300, 4, limit9Gi), "iommufd", Note,
			"user 107: 4Gi pinned by 1 processes, lowest memory lock 9Gi"},
		"no room for a second": {perUser(300, 4, limit5Gi), "iommufd", Problem, "ENOMEM"},
		"no room for a third": {both(perUser(300, 4, limit9Gi), perUser(301, 4, "unlimited")),
			"iommufd", Problem, "8Gi pinned by 2 processes, lowest memory lock 9Gi"},
		"unlimited": {perUser(300, 4, "unlimited"), "iommufd", Note, "memory lock unlimited"},
		"two users": {both(perUser(300, 4, limit9Gi), vm(301, 64055, 1<<20, 0, "0", limit9Gi)),
			"iommufd", Note, "user 64055: 1Gi pinned by 1 processes"},
	})
}

func TestPinnedPerUser(t *testing.T) {
	for status, want := range map[string][2]uint64{
		"":                                   {0, 0},
		"Uid:\t5\t6\t6\t6\nVmPin:\t 8 kB\n":  {5, 8 << 10},
		"Uid:\t5\t6\t6\t6\nVmLck:\t 8 kB\n":  {5, 0},
		"Uid:\t5\nVmPin:\t8 kB\nVmLck: 3 kB": {5, 5 << 10},
		"Uid:\tx\nVmPin:\t8 kB\n":            {0, 0},
	} {
		uid, bytes := pinnedPerUser(status)
		if diff := cmp.Diff(want, [2]uint64{uint64(uid), bytes}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", status, diff)
		}
	}
}
