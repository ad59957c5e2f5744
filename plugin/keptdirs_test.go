package plugin_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/plugin"
)

// oneTie is a Ties that may know one pod.
type oneTie struct {
	plugin.NoTies
	there atomic.Bool
}

func (o *oneTie) HasPod(string) bool { return o.there.Load() }

// rounds waits for a round of Run.
func rounds() {
	time.Sleep(11 * time.Second)
	synctest.Wait()
}

// No event and no Synchronize reports the end of a VM that outlives its pod. A round of Run deletes
// its directory.
func TestDirectoryIsDiscardedAfterTheTie(t *testing.T) {
	for name, removed := range map[string]func(*testing.T, *node, *nri.PodSandbox){
		"removed": func(t *testing.T, n *node, pod *nri.PodSandbox) {
			must(t, n.RemoveContainer(t.Context(), pod, newContainer(pod, "compute")))
			must(t, n.RemovePodSandbox(t.Context(), pod))
		},
		"removed while the agent was away": func(t *testing.T, n *node, pod *nri.PodSandbox) {
			n.registry.RemoveContainer(newContainer(pod, "compute").Id)
			n.synchronize(t, nil, nil)
			time.Sleep(secondScanDelay)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRun(t, policy.Enforce, func(t *testing.T, n *node) {
				tie := &oneTie{}
				tie.there.Store(true)
				n.Ties = tie
				pod := newPod("u1", decidetest.Lock("1Gi"))
				_, err := n.create(pod, newContainer(pod, "compute"))
				must(t, err)
				removed(t, n, pod)
				rounds()
				if dirs := n.dirs.list(); !slices.Contains(dirs, "u1") {
					t.Errorf("directories %v while the VM runs, want that of the pod", dirs)
				}
				tie.there.Store(false)
				rounds()
				if dirs := n.dirs.list(); len(dirs) != 0 {
					t.Errorf("directories %v are left", dirs)
				}
			})
		})
	}
}
