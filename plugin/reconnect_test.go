package plugin_test

import (
	"context"
	"sync"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

// stuckGuard is a guard whose check of a listed launcher waits for release.
type stuckGuard struct {
	plugin.Guard
	once              sync.Once
	checking, release chan struct{}
}

func (g *stuckGuard) Gone(l registry.Launcher) bool {
	g.once.Do(func() { close(g.checking) })
	<-g.release
	return g.Guard.Gone(l)
}

// The first creation after a reconnect does not wait until Run has reconciled the list. If it did,
// nobody would release the guard.
func TestCreationDuringReconciliation(t *testing.T) {
	n := newNode(t, policy.Enforce)
	guard := &stuckGuard{Guard: n.Guard, checking: make(chan struct{}),
		release: make(chan struct{})}
	n.Guard = guard
	pods, ctrs := n.listOf(3, 5*gi)
	_, err := n.Synchronize(t.Context(), pods, ctrs)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	<-guard.checking
	late := newPod("late", decidetest.Lock("1Gi"))
	_, err = n.create(late, newContainer(late, "compute"))
	must(t, err)
	if n.Reconciled() {
		t.Error("the list is reconciled before the creation")
	}
	stop()
	close(guard.release)
	running.Wait()
}

// After a reconnect, the creation of a container reads nothing about known launchers.
func TestCreationDoesNotReadKnownLaunchers(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.Policy.Get().Memlock.NodeMax = 100 * gi
	pods, ctrs := n.listOf(10, 5*gi)
	for _, pod := range pods[:9] {
		must(t, n.PostStartContainer(t.Context(), pod, compute(pod, ctrs)))
	}
	reads := 0
	n.HugePages = func(string) (int64, error) { reads++; return 0, nil }
	_, err := n.Synchronize(t.Context(), pods, ctrs)
	must(t, err)
	late := newPod("late", decidetest.Lock("1Gi"))
	_, err = n.create(late, newContainer(late, "compute"))
	must(t, err)
	if reads != 2 {
		t.Errorf("%d reads of huge pages, want one for the new and one for the unknown launcher",
			reads)
	}
}

// compute returns the launcher of a pod from a list.
func compute(pod *nri.PodSandbox, list []*nri.Container) *nri.Container {
	for _, ctr := range list {
		if ctr.GetPodSandboxId() == pod.GetId() && ctr.GetName() == "compute" {
			return ctr
		}
	}
	return nil
}
