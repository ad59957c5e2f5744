package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const (
	// seriesQuiet ends a series, as in client-go: an equal event after a longer pause is a new
	// Event.
	seriesQuiet = 6 * time.Minute
	// maxSeries bounds memory. The rate limit of each pod applies much earlier, unless very many
	// pods come and go.
	maxSeries = 4096
)

// seriesKey identifies equal events. Their reports may differ, because attempts take different
// times.
type seriesKey struct {
	pod       agentapi.PodRef
	container string
	eventType agentapi.EventType
	reason    agentapi.Reason
	message   string
	desired   agentapi.DesiredSize
}

// series is one Event with its repetitions.
type series struct {
	event    *eventsv1.Event   // from the API server, without annotations
	report   map[string]string // unwritten annotation; nil: none
	count    int32
	written  int32
	lastSeen time.Time
}

func keyOf(event agentapi.Event) seriesKey {
	key := seriesKey{
		pod:       event.Pod,
		container: event.Container.Name,
		eventType: event.Type,
		reason:    event.Reason,
		message:   event.Message,
	}
	if event.Desired != nil {
		key.desired = *event.Desired
	}
	return key
}

func (r *Recorder) handle(ctx context.Context, event agentapi.Event) {
	if ctx.Err() != nil {
		r.count(Dropped)
		return
	}
	key := keyOf(event)
	if known := r.series[key]; known != nil {
		r.repeat(ctx, key, known, event)
		return
	}
	if len(r.series) >= maxSeries || !r.limiters.allow(event.Pod) {
		r.count(Limited)
		return
	}
	r.create(ctx, key, eventObject(event, r.node, r.stamp()))
}

// stamp returns a unique time in nanoseconds. Events of one decision share their time, and their
// names must differ.
func (r *Recorder) stamp() int64 {
	r.lastStamp = max(time.Now().UnixNano(), r.lastStamp+1)
	return r.lastStamp
}

func (r *Recorder) create(ctx context.Context, key seriesKey, object *eventsv1.Event) {
	var created *eventsv1.Event
	err := persist(ctx, func(ctx context.Context) (err error) {
		created, err = r.sink.Create(ctx, object)
		return err
	})
	if err != nil {
		r.count(Failed)
		r.logger.WarnContext(ctx, "writing a Kubernetes Event failed",
			slog.String("reason", object.Reason),
			slog.String("pod", key.pod.Namespace+"/"+key.pod.Name), slog.Any("error", err))
		return
	}
	r.copyToInstance(ctx, key, object)
	created.Annotations = nil // there may be thousands of series
	r.series[key] = &series{event: created, count: 1, written: 1, lastSeen: time.Now()}
	r.count(Written)
}

// repeat writes the second event at once, and leaves further ones to the next sweep.
func (r *Recorder) repeat(ctx context.Context, key seriesKey, known *series, event agentapi.Event) {
	known.count++
	known.lastSeen = time.Now()
	known.report = reportAnnotation(event)
	r.count(Merged)
	if known.written == 1 {
		r.writeOne(ctx, key, known)
	}
}

// sweep writes the changed counts and drops quiet series.
func (r *Recorder) sweep(ctx context.Context) {
	r.writeSeries(ctx)
	for key, known := range r.series {
		if time.Since(known.lastSeen) > seriesQuiet {
			delete(r.series, key)
		}
	}
	r.limiters.sweep()
}

func (r *Recorder) writeSeries(ctx context.Context) {
	for key, known := range r.series {
		if ctx.Err() == nil && known.count > known.written {
			r.writeOne(ctx, key, known)
		}
	}
}

func (r *Recorder) writeOne(ctx context.Context, key seriesKey, known *series) {
	patch, err := seriesPatch(known)
	if err == nil {
		err = persist(ctx, func(ctx context.Context) error {
			_, err := r.sink.Patch(ctx, known.event, patch)
			return err
		})
	}
	switch {
	case err == nil:
		known.written, known.report = known.count, nil
	case apierrors.IsNotFound(err):
		// Events expire. The next equal event starts a new series.
		delete(r.series, key)
	default:
		r.logger.WarnContext(ctx, "counting a repeated Kubernetes Event failed",
			slog.String("reason", string(key.reason)),
			slog.String("pod", key.pod.Namespace+"/"+key.pod.Name), slog.Any("error", err))
	}
}

func seriesPatch(known *series) ([]byte, error) {
	change := map[string]any{"series": eventsv1.EventSeries{
		Count:            known.count,
		LastObservedTime: metav1.NewMicroTime(known.lastSeen),
	}}
	if known.report != nil {
		change["metadata"] = map[string]any{"annotations": known.report}
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode the series: %w", err)
	}
	return patch, nil
}
