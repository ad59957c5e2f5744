package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// resizeEvent returns an Event about a resize. Without desired it has no size annotation.
func resizeEvent(
	name string, reason agentapi.Reason, message string, desired *agentapi.DesiredSize,
) corev1.Event {
	e := corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name, UID: types.UID(name),
			ResourceVersion: "8"},
		EventTime: metav1.NewMicroTime(now), Reason: string(reason), Message: message,
	}
	if desired != nil {
		text, _ := json.Marshal(desired)
		e.Annotations = map[string]string{agentapi.DesiredKey: string(text)}
	}
	return e
}

// repeated returns the Event with a second occurrence.
func repeated(e corev1.Event) corev1.Event {
	e.Series = &corev1.EventSeries{Count: 2,
		LastObservedTime: metav1.NewMicroTime(now.Add(time.Minute))}
	return e
}

// The wait ends at the first Event after the patch about the requested size.
func TestWaitForAnEvent(t *testing.T) {
	desired := func(generation uint64, size api.Size) *agentapi.DesiredSize {
		return &agentapi.DesiredSize{Generation: generation, Size: size}
	}
	const done, failed, started = agentapi.ReasonResizeDone, agentapi.ReasonResizeFailed,
		agentapi.ReasonResizeStarted
	three, four, half, mixed := api.Size{VCPUs: 3}, api.Size{VCPUs: 4},
		api.Size{CPUQuota: api.CPUQuota{Percent: 50}},
		api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 50}, CPUShares: 200}
	gib := api.Size{Memory: gi}
	old := resizeEvent("old", done, "as wanted: 4Gi, 4 vCPUs", desired(5, four))
	withoutSize := resizeEvent("tacit", done, "as wanted: 4Gi, 4 vCPUs", nil)
	for name, c := range map[string]struct {
		requested api.Size
		before    []corev1.Event
		later     corev1.Event
		ends      bool
		code      int
	}{
		"done": {four, nil,
			resizeEvent("e", done, "", desired(7, four)), true, ExitOK},
		"done, with more dimensions": {four, nil,
			resizeEvent("e", done, "", desired(7, mixed)), true, ExitOK},
		"done with another number": {four, nil,
			resizeEvent("e", done, "as wanted: 4Gi, 4 vCPUs", desired(7, api.Size{VCPUs: 5})),
			false, 0},
		"bandwidth": {half, nil,
			resizeEvent("e", done, "", desired(7, half)), true, ExitOK},
		"another bandwidth": {half, nil, resizeEvent("e", done, "",
			desired(7, api.Size{CPUQuota: api.CPUQuota{Percent: 80}})), false, 0},
		"bandwidth without annotation": {half, nil,
			resizeEvent("e", done, "as wanted: 4Gi, 4 vCPUs", nil), false, 0},
		"other shares": {api.Size{CPUShares: 100}, nil,
			resizeEvent("e", done, "", desired(7, mixed)), false, 0},
		"started": {four, nil,
			resizeEvent("e", started, "", desired(7, four)), false, 0},
		"failed": {four, nil,
			resizeEvent("e", failed, "", desired(7, four)), true, ExitFailure},
		"failed at another size": {four, nil,
			resizeEvent("e", failed, "", desired(7, half)), false, 0},
		"invalid annotations": {four, nil,
			resizeEvent("e", failed, "", desired(7, api.Size{})), true, ExitFailure},
		"done before, repeated later": {four, []corev1.Event{old}, repeated(old), false, 0},
		"generation from before the patch": {four, []corev1.Event{old},
			resizeEvent("e", failed, "", desired(5, four)), false, 0},
		"done before, and again": {four, []corev1.Event{old},
			resizeEvent("e", done, "", desired(7, four)), true, ExitOK},
		"no size annotation": {api.Size{VCPUs: 4, Memory: 4 * gi}, nil, withoutSize,
			true, ExitOK},
		"no annotation, another size": {api.Size{VCPUs: 4, Memory: 2 * gi}, nil,
			withoutSize, false, 0},
		"no annotation, repeated": {four, []corev1.Event{withoutSize},
			repeated(withoutSize), false, 0},
		"no annotation, failed": {four, nil, resizeEvent("e", failed, "", nil), true,
			ExitFailure},
		"same size as before": {three,
			[]corev1.Event{resizeEvent("e", started, "", desired(5, three))},
			resizeEvent("f", done, "", desired(5, three)), true, ExitOK},
		"same size in another notation": {gib,
			[]corev1.Event{resizeEvent("e", started, "", desired(5, gib))},
			resizeEvent("f", done, "", desired(5, gib)), true, ExitOK},
		"same size as before, failed": {three,
			[]corev1.Event{resizeEvent("e", failed, "", desired(5, three))}, withoutSize, true,
			ExitFailure},
		"other size than before has failed": {three,
			[]corev1.Event{resizeEvent("e", failed, "", desired(4, four))},
			resizeEvent("f", done, "", desired(5, three)), true, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			s := startAPIServer(t)
			s.pod.Annotations = map[string]string{"vcpus.resize.mooring.dev": "3",
				"memory.resize.mooring.dev": "1024Mi"}
			last := resizeEvent("last", done, "the last one", desired(9, c.requested))
			s.listed, s.watched = c.before, []corev1.Event{c.later, last}
			args := "resize --kubeconfig " + s.kubeconfig + " vfio --wait --timeout 1m" +
				flagsText(c.requested)
			got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), strings.Fields(args)...)
			if ended := !strings.Contains(got.out, last.Message); ended != c.ends ||
				got.code != c.code {
				t.Errorf("got %+v, want a wait for the last Event: %t", got, !c.ends)
			}
		})
	}
}
