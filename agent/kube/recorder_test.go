package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

type outcomes map[Outcome]int

// recording is a recorder that runs in a synctest bubble until stop is called.
type recording struct {
	*Recorder
	client *fake.Clientset
	got    outcomes
	stop   func()
}

func newRecording(t *testing.T) *recording {
	t.Helper()
	r := &recording{client: fake.NewClientset(), got: outcomes{}}
	recorder, err := NewRecorder(RecorderConfig{
		Sink:   &events.EventSinkImpl{Interface: r.client.EventsV1()},
		Node:   testNode,
		Logger: slog.New(slog.DiscardHandler),
		Count:  func(o Outcome) { r.got[o]++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Recorder = recorder
	return r
}

func (r *recording) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
	}
}

func (r *recording) list(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := r.client.EventsV1().Events(metav1.NamespaceAll).List(t.Context(),
		metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (r *recording) wantOutcomes(t *testing.T, want outcomes) {
	t.Helper()
	if diff := cmp.Diff(want, r.got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

func refusal(message string) agentapi.Event {
	return agentapi.Event{
		Time:      time.Now(),
		Type:      agentapi.Warning,
		Reason:    agentapi.ReasonMemlockRefused,
		Message:   message,
		Pod:       agentapi.PodRef{Namespace: "vms", Name: "vm-1", UID: "uid-1"},
		Container: agentapi.ContainerRef{Name: "compute"},
	}
}

func TestEqualEventsBecomeASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.start(t)
		for range 5 {
			r.Record(refusal("too much"))
		}
		r.Record(refusal("still too much"))
		synctest.Wait()
		wantCounts(t, r.list(t), map[string]int32{"too much": 2, "still too much": 1})

		time.Sleep(seriesPeriod)
		synctest.Wait()
		wantCounts(t, r.list(t), map[string]int32{"too much": 5, "still too much": 1})
		r.stop()
		r.wantOutcomes(t, outcomes{Written: 2, Merged: 4})
	})
}

// A counted Event has the latest report and keeps the rest.
func TestASeriesHasTheLatestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.start(t)
		report := func(plan string) {
			e := refusal("failed")
			e.Desired, e.Report = &agentapi.DesiredSize{Generation: 7},
				&podapi.Report{Generation: 7, State: podapi.StateFailed, Plan: []string{plan}}
			r.Record(e)
			synctest.Wait()
		}
		want := func(count int32, plan string) {
			t.Helper()
			wantCounts(t, r.list(t), map[string]int32{"failed": count})
			want := map[string]string{
				"wanted.event.mooring.dev": `{"generation":7}`,
				"report.event.mooring.dev": `{"generation":7,"state":"Failed","plan":["` +
					plan + `"]}`,
			}
			if diff := cmp.Diff(want, r.list(t)[0].Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		}
		report("a")
		want(1, "a")
		report("b")
		want(2, "b")
		report("c")
		want(2, "b") // until the next count
		time.Sleep(seriesPeriod)
		synctest.Wait()
		want(3, "c")
		r.stop()
		r.wantOutcomes(t, outcomes{Written: 1, Merged: 2})
		for _, known := range r.series {
			if known.report != nil || known.event.Annotations != nil {
				t.Errorf("a written series keeps %v, %v", known.report, known.event.Annotations)
			}
		}
	})
}

// wantCounts compares how often each note was seen.
func wantCounts(t *testing.T, list []eventsv1.Event, want map[string]int32) {
	t.Helper()
	got := map[string]int32{}
	for _, event := range list {
		got[event.Note]++
		if event.Series != nil {
			got[event.Note] += event.Series.Count - 1
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestAQuietSeriesEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.start(t)
		r.Record(refusal("too much"))
		time.Sleep(seriesQuiet + 2*seriesPeriod)
		r.Record(refusal("too much"))
		synctest.Wait()
		if got := len(r.list(t)); got != 2 {
			t.Errorf("%d Events, want 2", got)
		}
		r.stop()
		if len(r.series) != 1 {
			t.Errorf("%d series kept, want 1", len(r.series))
		}
	})
}

func TestAnExpiredSeriesStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.start(t)
		r.Record(refusal("too much"))
		synctest.Wait()
		expired := r.list(t)[0]
		if err := r.client.EventsV1().Events("vms").Delete(t.Context(), expired.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		r.Record(refusal("too much"))
		r.Record(refusal("too much"))
		synctest.Wait()
		wantCounts(t, r.list(t), map[string]int32{"too much": 1})
		r.stop()
	})
}

func TestOnePodCannotFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.start(t)
		for i := range podBurst + 7 {
			r.Record(refusal(fmt.Sprint("attempt ", i)))
		}
		other := refusal("another pod")
		other.Pod.UID = "uid-2"
		r.Record(other)
		synctest.Wait()
		r.stop()
		r.wantOutcomes(t, outcomes{Written: podBurst + 1, Limited: 7})
	})
}

func TestAFullQueueDropsAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		for range queueLength + 3 {
			r.Record(refusal("too much"))
		}
		r.wantOutcomes(t, outcomes{Dropped: 3})
	})
}

func TestRunFlushesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		for range 4 {
			r.Record(refusal("too much"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.Run(ctx)
		wantCounts(t, r.list(t), map[string]int32{"too much": 4})
	})
}

func TestFlushIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecording(t)
		r.fail(errors.New("connection refused"), -1)
		r.start(t)
		r.Record(refusal("one"))
		r.Record(refusal("two"))
		synctest.Wait()
		stopped := time.Now()
		r.stop()
		if took := time.Since(stopped); took > flushTimeout {
			t.Errorf("stopping took %s, want at most %s", took, flushTimeout)
		}
		r.wantOutcomes(t, outcomes{Failed: 1, Dropped: 1})
	})
}

// fail makes the next n creations fail with err; all of them when n is negative.
func (r *recording) fail(err error, n int) {
	r.client.PrependReactor("create", "events",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			if n == 0 {
				return false, nil, nil
			}
			n--
			return true, nil, err
		})
}

func TestRetries(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 1)
	tests := map[string]struct {
		err   error
		times int
		want  outcomes
	}{
		"server away for a while": {err: errors.New("connection refused"), times: 3,
			want: outcomes{Written: 1}},
		"server busy": {err: busy, times: 1, want: outcomes{Written: 1}},
		"server away": {err: errors.New("connection refused"), times: -1,
			want: outcomes{Failed: 1}},
		"server says no": {err: apierrors.NewForbidden(eventsv1.Resource("events"), "e", nil),
			times: 1, want: outcomes{Failed: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecording(t)
				r.fail(tt.err, tt.times)
				r.start(t)
				r.Record(refusal("too much"))
				time.Sleep(time.Minute)
				r.stop()
				r.wantOutcomes(t, tt.want)
			})
		})
	}
}

func TestNewRecorderNeedsANode(t *testing.T) {
	if _, err := NewRecorder(RecorderConfig{}); err == nil {
		t.Error("an empty node name was accepted")
	}
}
