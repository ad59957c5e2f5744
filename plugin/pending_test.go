package plugin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// listOf returns a list of launchers with a memory lock of 5Gi. Without a spec, the list does not
// have the locks.
func (n *node) listOf(launchers int, spec uint64) ([]*nri.PodSandbox, []*nri.Container) {
	var pods []*nri.PodSandbox
	var ctrs []*nri.Container
	for i := range launchers {
		pod := newPod(fmt.Sprintf("u%d", i), decidetest.VFIO())
		pods = append(pods, pod)
		ctrs = append(ctrs, n.running(pod, 100+i, spec), newContainer(pod, "sidecar"))
	}
	return pods, ctrs
}

// countedAccounts counts decisions: each asks for a service account.
type countedAccounts struct{ decisions int }

func (a *countedAccounts) ServiceAccount(string) (string, bool) {
	a.decisions++
	return "default", true
}

// The first creation after a reconnect does not wait for decisions about all listed launchers.
func TestCreationDoesNotDecideAboutAPendingList(t *testing.T) {
	for name, c := range map[string]struct {
		nodeMax int64
		spec    uint64
		listed  int // decisions about listed launchers
	}{
		"locks in the list":    {64 * gi, 5 * gi, 0},
		"no ceiling":           {0, 5 * gi, 0},
		"no locks, no ceiling": {0, 0, 0},
		"no locks in the list": {64 * gi, 0, 10},
	} {
		n, accounts := newNode(t, policy.Enforce), &countedAccounts{}
		n.Policy.Get().Memlock.NodeMax, n.Accounts = c.nodeMax, accounts
		pods, ctrs := n.listOf(10, c.spec)
		_, err := n.Synchronize(context.Background(), pods, ctrs)
		must(t, err)
		for _, uid := range []string{"late", "later"} {
			late := newPod(uid, decidetest.Lock("1Gi"))
			_, err = n.create(late, newContainer(late, "compute"))
			must(t, err)
		}
		if got := accounts.decisions - 2; got != c.listed {
			t.Errorf("%s: %d decisions about listed launchers, want %d", name, got, c.listed)
		}
	}
}

// The ceiling holds with a runtime that lists no limits.
func TestPendingListWithoutLocksCounts(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pods, ctrs := n.listOf(12, 0)
	_, err := n.Synchronize(context.Background(), pods, ctrs)
	must(t, err)
	late := newPod("late", decidetest.VFIO())
	if _, err := n.create(late, newContainer(late, "compute")); err == nil ||
		!strings.Contains(err.Error(), "others have 60Gi") {
		t.Errorf("error %v, want one about the node's ceiling", err)
	}
}

// BenchmarkPendingList measures the first creation after a reconnect, while the runtime's list of
// 1,000 launchers is pending.
func BenchmarkPendingList(b *testing.B) {
	for name, spec := range map[string]uint64{"locks": 5 * gi, "nolocks": 0} {
		b.Run(name, func(b *testing.B) {
			n := newNode(b, policy.Enforce)
			n.Policy.Get().Memlock.NodeMax = 1 << 60
			pods, ctrs := n.listOf(1000, spec)
			late := newPod("late", decidetest.VFIO())
			for b.Loop() {
				b.StopTimer()
				if _, err := n.Synchronize(context.Background(), pods, ctrs); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := n.create(late, newContainer(late, "compute")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
