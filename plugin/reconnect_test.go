package plugin_test

import (
	"context"
	"strings"
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

// The first creation after a restart of the agent reads no huge-page limit of another launcher. It
// reads them one by one only if the node's pools of huge pages would refuse it.
func TestCreationReadsOtherLaunchersOnlyIfNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		reads   int
	}{
		"room for all pools":  {"4Gi", 0},
		"room for the limits": {"12Gi", 3},
		"no lock":             {"", 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, policy.Enforce) // with a ceiling of 64Gi
			reads := n.listBounded(t, 3)    // 30Gi, and huge pages of 3 x 7Gi of 25Gi
			late := newPod("late", nil)
			if c.request != "" {
				late = newPod("late", decidetest.Lock(c.request))
			}
			_, err := n.create(late, newContainer(late, "compute"))
			must(t, err)
			if got := len(reads()); got != c.reads {
				t.Errorf("huge-page limits of %d other launchers read, want %d", got, c.reads)
			}
		})
	}
}

// A creation that needs the huge-page limits of other launchers delays no creation that does not.
func TestReadingHugePagesDelaysNoOtherCreation(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.listBounded(t, 3)
	read := n.HugePages
	var once sync.Once
	reading, release := make(chan struct{}), make(chan struct{})
	n.HugePages = func(cgroup string) (int64, error) {
		if strings.Contains(cgroup, "podu") {
			once.Do(func() { close(reading) })
			<-release
		}
		return read(cgroup)
	}
	var large sync.WaitGroup
	large.Go(func() {
		pod := newPod("large", decidetest.Lock("12Gi"))
		if _, err := n.create(pod, newContainer(pod, "compute")); err != nil {
			t.Error(err)
		}
	})
	<-reading
	small := newPod("small", decidetest.Lock("1Gi"))
	_, err := n.create(small, newContainer(small, "compute")) // nobody has released the reader
	must(t, err)
	close(release)
	large.Wait()
}

// listBounded gives the plugin a list of launchers with a memory limit of 10Gi and 7Gi of huge
// pages. The node has 25Gi of huge pages. reads returns the cgroups of listed launchers whose
// limits the plugin has read.
func (n *node) listBounded(t *testing.T, launchers int) (reads func() []string) {
	t.Helper()
	var mutex sync.Mutex
	var read []string
	n.HugePages = func(cgroup string) (int64, error) {
		switch {
		case cgroup == "/":
			return 25 * gi, nil
		case !strings.Contains(cgroup, "podu"):
			return 0, nil
		}
		mutex.Lock()
		defer mutex.Unlock()
		read = append(read, cgroup)
		return 7 * gi, nil
	}
	pods, ctrs := n.listOf(launchers, 5*gi)
	for _, pod := range pods {
		pod.Linux = &nri.LinuxPodSandbox{CgroupParent: "kubepods-pod" + pod.GetUid() + ".slice"}
		withMemory(compute(pod, ctrs), 10*gi)
	}
	_, err := n.Synchronize(t.Context(), pods, ctrs)
	must(t, err)
	return func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return read
	}
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
	if reads != 1 {
		t.Errorf("%d reads of huge pages, want one for the new launcher", reads)
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
