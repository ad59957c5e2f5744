package plugin_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// secondScan is longer than the delay of the plugin's second scan.
const secondScanDelay = time.Minute

// withRun calls test while the plugin's Run works, with a simulated clock.
func withRun(t *testing.T, mode policy.Mode, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, mode)
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go n.Run(ctx)
		test(t, n)
	})
}

// synchronize passes lists to the plugin and waits until it has reconciled them.
func (n *node) synchronize(t *testing.T, pods []*nri.PodSandbox, ctrs []*nri.Container) {
	t.Helper()
	updates, err := n.Synchronize(context.Background(), pods, ctrs)
	if len(updates) != 0 || err != nil {
		t.Fatalf("Synchronize = %v, %v, want nothing", updates, err)
	}
	synctest.Wait()
}

func TestSynchronizeAdoptsLaunchers(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		var pods []*nri.PodSandbox
		var ctrs []*nri.Container
		for i := range 500 {
			pod := newPod(fmt.Sprintf("u%d", i), map[string]string{})
			compute, sidecar := newContainer(pod, "compute"), newContainer(pod, "sidecar")
			n.start(compute, 1000+i, host.Rlimit{})
			n.start(sidecar, 2000+i, host.Rlimit{})
			pods, ctrs = append(pods, pod), append(ctrs, compute, sidecar)
		}
		n.synchronize(t, pods, ctrs)
		if got := len(n.registry.List()); got != 500 {
			t.Errorf("%d launchers in the registry, want 500", got)
		}
		n.checkState(t, pods[7], agentapi.StateRunning)
		if l := n.launcher(t, pods[7]); l.Container.PID != 1007 {
			t.Errorf("process of pod 7 = %d, want 1007", l.Container.PID)
		}
	})
}

func TestSynchronizeForgetsEndedLaunchers(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.VFIO())
		ctr := newContainer(pod, "compute")
		n.start(ctr, 100, host.Rlimit{})
		must(t, n.PostStartContainer(context.Background(), pod, ctr))
		n.kernel.Exit(100)
		n.synchronize(t, nil, nil)
		if l := n.registry.List(); len(l) != 0 {
			t.Errorf("registry = %v, want nothing", l)
		}
		if a := n.registry.Account(); a.Granted != 0 {
			t.Errorf("account = %+v, want nothing", a)
		}
	})
}

// Runtimes have lost containers in Synchronize.
func TestSynchronizeKeepsRunningLaunchers(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.VFIO())
		ctr := newContainer(pod, "compute")
		n.start(ctr, 100, host.Rlimit{})
		must(t, n.PostStartContainer(context.Background(), pod, ctr))
		n.synchronize(t, nil, nil)
		time.Sleep(secondScanDelay)
		synctest.Wait()
		n.checkState(t, pod, agentapi.StateRunning)
	})
}

func TestSecondScanForgetsUnstartedLaunchers(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.VFIO())
		_, err := n.create(pod, newContainer(pod, "compute"))
		must(t, err)
		n.synchronize(t, nil, nil)
		n.checkState(t, pod, agentapi.StateCreating) // the runtime may be creating it
		if len(n.dirs.list()) != 1 {
			t.Error("its directory was discarded at once")
		}
		time.Sleep(secondScanDelay)
		synctest.Wait()
		if l, dirs := n.registry.List(), n.dirs.list(); len(l)+len(dirs) != 0 {
			t.Errorf("after the second scan: %v, %v, want nothing", l, dirs)
		}
	})
}

func TestLaterEventsTakePrecedenceOverTheList(t *testing.T) {
	ctx := context.Background()
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		stopped, created := newPod("stopped", decidetest.VFIO()),
			newPod("created", decidetest.VFIO())
		ctr := newContainer(stopped, "compute")
		n.start(ctr, 100, host.Rlimit{})
		must(t, n.PostStartContainer(ctx, stopped, ctr))

		_, err := n.Synchronize(ctx, []*nri.PodSandbox{stopped}, []*nri.Container{ctr})
		must(t, err)
		_, err = n.StopContainer(ctx, stopped, ctr)
		must(t, err)
		_, err = n.create(created, newContainer(created, "compute"))
		must(t, err)
		synctest.Wait()
		n.checkState(t, stopped, agentapi.StateStopped)
		time.Sleep(secondScanDelay)
		synctest.Wait()
		n.checkState(t, created, agentapi.StateCreating)
	})
}

func TestListDoesNotReviveARemovedLauncher(t *testing.T) {
	ctx := context.Background()
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.VFIO())
		ctr := newContainer(pod, "compute")
		n.start(ctr, 100, host.Rlimit{})
		must(t, n.PostStartContainer(ctx, pod, ctr))
		_, err := n.Synchronize(ctx, []*nri.PodSandbox{pod}, []*nri.Container{ctr})
		must(t, err)
		n.kernel.Exit(100)
		must(t, n.RemoveContainer(ctx, pod, ctr))
		synctest.Wait()
		if l := n.registry.List(); len(l) != 0 {
			t.Errorf("registry = %v, want nothing", l)
		}
	})
}

func TestSecondScanKeepsDirectoriesOfListedPods(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		listed, gone := newPod("listed", nil), newPod("gone", nil)
		for _, pod := range []*nri.PodSandbox{listed, gone} {
			_, err := n.dirs.Create(pod.GetUid()) // by an agent before this one
			must(t, err)
		}
		n.synchronize(t, []*nri.PodSandbox{listed}, nil)
		time.Sleep(secondScanDelay)
		synctest.Wait()
		if dirs := n.dirs.list(); len(dirs) != 1 || dirs[0] != "listed" {
			t.Errorf("directories = %v, want that of the listed pod", dirs)
		}
	})
}
