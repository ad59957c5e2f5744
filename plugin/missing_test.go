package plugin_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

func TestConflictingLauncher(t *testing.T) {
	n := newNode(t, policy.Enforce)
	for launcher, want := range map[string]string{
		"compute": "",
		"comptue": `annotation launcher.mooring.dev names container "comptue", and profile ` +
			`"kubevirt" of the node policy "compute": ` +
			`the annotation holds, so nothing is set for container "compute"`,
	} {
		pod := newPod(launcher, map[string]string{api.LauncherKey: launcher})
		pod.Labels = decidetest.LauncherLabels()
		must(t, n.RunPodSandbox(context.Background(), pod))
		if got := messages(n); got != want {
			t.Errorf("%s: reported %q, want %q", launcher, got, want)
		}
		n = newNode(t, policy.Enforce)
	}
	unlabelled := newPod("u1", map[string]string{api.LauncherKey: "comptue"})
	must(t, n.RunPodSandbox(context.Background(), unlabelled))
	if got := messages(n); got != "" {
		t.Errorf("reported %q for a pod without a profile, want nothing", got)
	}
}

func messages(n *node) string {
	var all []string
	for _, e := range n.recorder.Events() {
		all = append(all, e.Message)
	}
	return strings.Join(all, "\n")
}

// A misspelled launcher annotation shows as a missing launcher.
func TestMissingLauncherIsReported(t *testing.T) {
	ctx := context.Background()
	for name, test := range map[string]struct {
		then func(*testing.T, *node, *nri.PodSandbox)
		want int
	}{
		"never":    {func(*testing.T, *node, *nri.PodSandbox) {}, 1},
		"too late": {func(*testing.T, *node, *nri.PodSandbox) { time.Sleep(3 * time.Minute) }, 1},
		"a restart": {func(t *testing.T, n *node, pod *nri.PodSandbox) {
			time.Sleep(3 * time.Minute)
			n.startSidecar(t, pod)
		}, 1},
		"in time": {func(t *testing.T, n *node, pod *nri.PodSandbox) {
			_, err := n.create(pod, newContainer(pod, "compute"))
			must(t, err)
		}, 0},
		"the pod is gone": {func(t *testing.T, n *node, pod *nri.PodSandbox) {
			must(t, n.RemovePodSandbox(ctx, pod))
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withRun(t, policy.Enforce, func(t *testing.T, n *node) {
				pod := newPod("u1", nil)
				n.startSidecar(t, pod)
				time.Sleep(time.Minute)
				if got := messages(n); got != "" {
					t.Errorf("reported %q after a minute, want nothing", got)
				}
				test.then(t, n, pod)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				events := n.recorder.Events()
				if len(events) != test.want {
					t.Fatalf("events = %+v, want %d", events, test.want)
				}
				want := `annotation launcher.mooring.dev names container "compute", which was ` +
					`not created`
				for _, e := range events {
					if e.Reason != agentapi.ReasonAnnotationInvalid ||
						!strings.Contains(e.Message, want) {
						t.Errorf("event = %+v, want one with %q", e, want)
					}
				}
			})
		})
	}
}

func (n *node) startSidecar(t *testing.T, pod *nri.PodSandbox) {
	t.Helper()
	must(t, n.PostStartContainer(context.Background(), pod, newContainer(pod, "sidecar")))
}
