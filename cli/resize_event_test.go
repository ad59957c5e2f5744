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

// tells is an Event about a resize. about is nil where the agent did not say what it is
// about.
func tells(name string, reason agentapi.Reason, message string, about *agentapi.DesiredSize) corev1.Event {
	e := corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name, UID: types.UID(name), ResourceVersion: "8"},
		EventTime:  metav1.NewMicroTime(now), Reason: string(reason), Message: message,
	}
	if about != nil {
		text, _ := json.Marshal(about)
		e.Annotations = map[string]string{agentapi.DesiredKey: string(text)}
	}
	return e
}

// counted is an Event that is counted once more.
func counted(e corev1.Event) corev1.Event {
	e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(now.Add(time.Minute))}
	return e
}

// What ends the wait is an Event about what was asked for, told after the patch: the one
// that comes, or else the last one.
func TestWaitForAnEvent(t *testing.T) {
	about := func(generation uint64, size api.Size) *agentapi.DesiredSize {
		return &agentapi.DesiredSize{Generation: generation, Size: size}
	}
	const done, failed, started = agentapi.ReasonResizeDone, agentapi.ReasonResizeFailed, agentapi.ReasonResizeStarted
	three, four, half, mixed := api.Size{VCPUs: 3}, api.Size{VCPUs: 4}, api.Size{CPUQuota: api.CPUQuota{Percent: 50}}, api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 50}, CPUShares: 200}
	gib := api.Size{Memory: gi}
	old := tells("old", done, "as wanted: 4Gi, 4 vCPUs", about(5, four))
	tacit := tells("tacit", done, "as wanted: 4Gi, 4 vCPUs", nil)
	for name, c := range map[string]struct {
		asked  api.Size
		before []corev1.Event
		later  corev1.Event
		ends   bool
		code   int
	}{
		"done":                                 {four, nil, tells("e", done, "", about(7, four)), true, ExitOK},
		"done, and more is asked for":          {four, nil, tells("e", done, "", about(7, mixed)), true, ExitOK},
		"done with another number":             {four, nil, tells("e", done, "as wanted: 4Gi, 4 vCPUs", about(7, api.Size{VCPUs: 5})), false, 0},
		"bandwidth":                            {half, nil, tells("e", done, "", about(7, half)), true, ExitOK},
		"another bandwidth":                    {half, nil, tells("e", done, "", about(7, api.Size{CPUQuota: api.CPUQuota{Percent: 80}})), false, 0},
		"bandwidth that nobody speaks of":      {half, nil, tells("e", done, "as wanted: 4Gi, 4 vCPUs", nil), false, 0},
		"other shares":                         {api.Size{CPUShares: 100}, nil, tells("e", done, "", about(7, mixed)), false, 0},
		"begun":                                {four, nil, tells("e", started, "", about(7, four)), false, 0},
		"failed":                               {four, nil, tells("e", failed, "", about(7, four)), true, ExitFailure},
		"failed at another size":               {four, nil, tells("e", failed, "", about(7, half)), false, 0},
		"nothing can be read":                  {four, nil, tells("e", failed, "", about(7, api.Size{})), true, ExitFailure},
		"done before, and counted late":        {four, []corev1.Event{old}, counted(old), false, 0},
		"of a generation that was told of":     {four, []corev1.Event{old}, tells("e", failed, "", about(5, four)), false, 0},
		"done before, and again":               {four, []corev1.Event{old}, tells("e", done, "", about(7, four)), true, ExitOK},
		"words alone":                          {api.Size{VCPUs: 4, Memory: 4 * gi}, nil, tacit, true, ExitOK},
		"words alone, of another size":         {api.Size{VCPUs: 4, Memory: 2 * gi}, nil, tacit, false, 0},
		"words alone, told before":             {four, []corev1.Event{tacit}, counted(tacit), false, 0},
		"words alone, failed":                  {four, nil, tells("e", failed, "", nil), true, ExitFailure},
		"the same as before":                   {three, []corev1.Event{tells("e", started, "", about(5, three))}, tells("f", done, "", about(5, three)), true, ExitOK},
		"the same as before, in other words":   {gib, []corev1.Event{tells("e", started, "", about(5, gib))}, tells("f", done, "", about(5, gib)), true, ExitOK},
		"the same as before, which has failed": {three, []corev1.Event{tells("e", failed, "", about(5, three))}, tacit, true, ExitFailure},
		"another size than before has failed":  {three, []corev1.Event{tells("e", failed, "", about(4, four))}, tells("f", done, "", about(5, three)), true, ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			s := startAPIServer(t)
			s.pod.Annotations = map[string]string{"vcpus.resize.mooring.dev": "3", "memory.resize.mooring.dev": "1024Mi"}
			last := tells("last", done, "the last one", about(9, c.asked))
			s.events, s.later = c.before, []corev1.Event{c.later, last}
			args := "resize --kubeconfig " + s.kubeconfig + " vfio --wait --timeout 1m" + flagsText(c.asked)
			got := run(t.Context(), t, filepath.Join(t.TempDir(), "none"), strings.Fields(args)...)
			if ended := !strings.Contains(got.out, last.Message); ended != c.ends || got.code != c.code {
				t.Errorf("got %+v, want that the last Event is waited for: %t", got, !c.ends)
			}
		})
	}
}
