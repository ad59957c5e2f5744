package plugin_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// unreadableNode has a ceiling of 64Gi and 64Gi of memory, and 30Gi of huge pages unless its pools
// are unreadable. The huge-page limit of pod u1 cannot be read. Other pods have none.
func unreadableNode(t *testing.T, pools error) (*node, *nri.PodSandbox) {
	t.Helper()
	n := newNode(t, policy.Enforce)
	n.NodeMemory = 64 * gi
	n.HugePages = func(cgroup string) (int64, error) {
		switch {
		case cgroup == "/":
			return 30 * gi, pools
		case strings.Contains(cgroup, "podu1"):
			return 0, fmt.Errorf("read %s/hugetlb.2MB.max: %w", cgroup, syscall.EIO)
		}
		return 0, nil
	}
	pod := newPod("u1", decidetest.VFIO())
	pod.Linux = &nri.LinuxPodSandbox{CgroupParent: "kubepods-podu1.slice"}
	return n, pod
}

// A new launcher with an unreadable huge-page limit counts with the node's pools, and with the
// node's memory if these are unreadable, too. The refusal names the file.
func TestUnreadableHugePagesOfANewLauncher(t *testing.T) {
	for name, c := range map[string]struct {
		pools   error
		memory  int64
		counted int64
		refusal string
	}{
		"room for the pools": {nil, 20 * gi, 50 * gi, ""},
		"no room for the pools": {nil, 40 * gi, 0, "this one counts with 70Gi, its memory limit and " +
			"huge pages; its huge-page limit is unknown and counts as 30Gi: read /kubepods.slice/" +
			"kubepods-podu1.slice/hugetlb.2MB.max: input/output error"},
		"no pools": {syscall.EIO, 20 * gi, 0, "this one counts with 84Gi"},
	} {
		n, pod := unreadableNode(t, c.pools)
		_, err := n.create(pod, withMemory(newContainer(pod, "compute"), c.memory))
		if c.refusal == "" {
			must(t, err)
			notes := strings.Join(n.launcher(t, pod).Notes, "\n")
			if !strings.Contains(notes, "hugetlb.2MB.max: input/output error") {
				t.Errorf("%s: notes %q do not name the file", name, notes)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.refusal)
		}
		if got := n.registry.Account().Granted; got != c.counted {
			t.Errorf("%s: account has %d bytes, want %d", name, got, c.counted)
		}
	}
}

// The same holds for a running launcher, in a pending list of the runtime and after its adoption.
func TestUnreadableHugePagesOfARunningLauncher(t *testing.T) {
	n, pod := unreadableNode(t, nil)
	ctr := withMemory(n.running(pod, 100, 5*gi), 10*gi)
	_, err := n.Synchronize(t.Context(), []*nri.PodSandbox{pod}, []*nri.Container{ctr})
	must(t, err)
	late := func() error {
		pod := newPod("late", decidetest.VFIO())
		pod.Linux = &nri.LinuxPodSandbox{CgroupParent: "kubepods-podlate.slice"}
		_, err := n.create(pod, withMemory(newContainer(pod, "compute"), 30*gi))
		return err
	}
	if err := late(); err == nil || !strings.Contains(err.Error(), "others have 40Gi") {
		t.Errorf("pending list: error %v, want one about 10Gi and the pools", err)
	}
	must(t, n.PostStartContainer(t.Context(), pod, ctr))
	if got := n.registry.Account().Granted; got != 40*gi {
		t.Errorf("account has %d bytes, want 10Gi and the pools", got)
	}
	if err := late(); err == nil || !strings.Contains(err.Error(), "others have 40Gi") {
		t.Errorf("after the adoption: error %v, want one about 10Gi and the pools", err)
	}
}
