package plugin_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/plugin"
)

// drawPod draws a launcher pod with some requests, valid and invalid.
func drawPod(t *rapid.T, uid string) *nri.PodSandbox {
	requests := map[string]string{}
	maps.Copy(requests, rapid.SampledFrom([]map[string]string{
		nil, decidetest.VFIO(), decidetest.Lock("16Gi"), decidetest.Lock("40Gi"),
		decidetest.UnlimitedLock(), {api.GuestMemoryKey: "rubbish"},
	}).Draw(t, "lock"))
	if rapid.Bool().Draw(t, "memory.high") {
		requests["memory.high"+api.CgroupSuffix] = "1Gi"
	}
	pod := newPod(uid, requests)
	pod.Namespace = rapid.SampledFrom([]string{"trusted", "tenant-a", "nowhere"}).Draw(t, "namespace")
	return pod
}

// For all sequences of new and removed launchers: mode observe adjusts none, makes no directory and
// predicts each outcome of mode enforce, also where the node's ceiling decides.
func TestObservePredictsEnforce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		observe, enforce := newNode(t, policy.Observe), newNode(t, policy.Enforce)
		var pods []*nri.PodSandbox
		for i := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			if len(pods) > 0 && rapid.IntRange(0, 3).Draw(rt, "removes") == 0 {
				gone := pods[0]
				pods = pods[1:]
				for _, n := range []*node{observe, enforce} {
					must(t, n.RemovePodSandbox(context.Background(), gone))
				}
				continue
			}
			pod := drawPod(rt, fmt.Sprint("u", i))
			pods = append(pods, pod)
			memory := rapid.SampledFrom([]int64{0, 2 * gi, 20 * gi}).Draw(rt, "memory limit")
			comparePrediction(rt, pod, memory, observe, enforce)
		}
		if made := observe.dirs.list(); len(made) > 0 {
			rt.Fatalf("mode observe made directories for %q", made)
		}
		if a, b := observe.registry.Account(), enforce.registry.Account(); a != b {
			rt.Fatalf("account %+v in mode observe, %+v in mode enforce", a, b)
		}
	})
}

func comparePrediction(
	t *rapid.T, pod *nri.PodSandbox, memory int64, observe, enforce *node,
) {
	before := len(observe.recorder.Events())
	adjust, err := observe.create(pod, withMemory(newContainer(pod, "compute"), memory))
	if adjust != nil || err != nil {
		t.Fatalf("mode observe answered %v, %v", adjust, err)
	}
	_, refused := enforce.create(pod, withMemory(newContainer(pod, "compute"), memory))
	predicted, got := last(observe.observer.decided()), last(enforce.observer.decided())
	want := plugin.OutcomeWouldSet
	if refused != nil {
		want = plugin.OutcomeWouldRefuse
	}
	if predicted != want {
		t.Fatalf("predicted %s, and the outcome was %s (%v)", predicted, got, refused)
	}
	if refused == nil {
		return
	}
	for _, e := range observe.recorder.Events()[before:] {
		if e.Reason == agentapi.ReasonWouldRefuse && strings.HasSuffix(e.Message, refused.Error()) {
			return
		}
	}
	t.Fatalf("no Event predicted the refusal %v", refused)
}

func last[T any](all []T) T { return all[len(all)-1] }
