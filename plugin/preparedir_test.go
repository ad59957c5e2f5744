package plugin_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

func TestSandboxPreparesTheDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		mode policy.Mode
		pod  *nri.PodSandbox
		want []string
	}{
		"launcher pod":       {policy.Enforce, newPod("u1", decidetest.Lock("1Gi")), []string{"u1"}},
		"launcher, observed": {policy.Observe, newPod("u1", decidetest.Lock("1Gi")), nil},
		"other pod":          {policy.Enforce, &nri.PodSandbox{Id: "s", Uid: "u1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.mode)
			must(t, n.RunPodSandbox(t.Context(), c.pod))
			if got := n.dirs.list(); !slices.Equal(got, c.want) {
				t.Errorf("after RunPodSandbox: directories %v, want %v", got, c.want)
			}
			must(t, n.RemovePodSandbox(t.Context(), c.pod))
			if got := n.dirs.list(); len(got) != 0 {
				t.Errorf("after RemovePodSandbox: directories %v are left", got)
			}
		})
	}
}

// A list of the runtime may omit a sandbox that it was just creating. The agent then discards the
// directory before the launcher.
func TestDirectoryDiscardedBeforeTheLauncher(t *testing.T) {
	withRun(t, policy.Enforce, func(t *testing.T, n *node) {
		pod := newPod("u1", decidetest.Lock("1Gi"))
		must(t, n.RunPodSandbox(t.Context(), pod))
		n.synchronize(t, nil, nil)
		time.Sleep(secondScanDelay)
		synctest.Wait()
		if got := n.dirs.list(); len(got) != 0 {
			t.Fatalf("directories %v after a list without the pod, want none", got)
		}
		if _, err := n.create(pod, newContainer(pod, "compute")); err != nil {
			t.Fatal(err)
		}
		if got := n.dirs.list(); !slices.Contains(got, "u1") {
			t.Errorf("directories %v after CreateContainer, want that of the pod", got)
		}
	})
}

// The failure in advance keeps no pod from running, and the launcher alone is refused.
func TestDirectoryCannotBePrepared(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.dirs.fail = errFull
	pod := newPod("u1", decidetest.Lock("1Gi"))
	must(t, n.RunPodSandbox(t.Context(), pod))
	if got := n.recorder.Reasons(); len(got) != 0 {
		t.Errorf("events %v before the launcher, want none", got)
	}
	if _, err := n.create(pod, newContainer(pod, "compute")); err == nil {
		t.Error("launcher without a directory was created")
	}
	if got := n.recorder.Reasons(); !slices.Contains(got, agentapi.ReasonPodDirFailed) {
		t.Errorf("events %v, want %s", got, agentapi.ReasonPodDirFailed)
	}
	n.dirs.fail = nil
	if _, err := n.create(pod, newContainer(pod, "compute")); err != nil {
		t.Errorf("kubelet's next attempt: %v", err)
	}
}
