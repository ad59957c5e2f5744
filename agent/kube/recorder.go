package kube

import (
	"context"
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const (
	queueLength  = 256
	flushTimeout = 5 * time.Second
	// seriesPeriod is how often the count of a repeating event is written.
	seriesPeriod = time.Minute
)

// Outcome is the fate of an event handed to a [Recorder].
type Outcome string

// The outcomes of an event.
const (
	Written Outcome = "written" // is an Event of its own
	Merged  Outcome = "merged"  // counted in the series of an equal Event
	Limited Outcome = "limited" // its pod had too many already
	Dropped Outcome = "dropped" // the queue was full, or the agent stopped first
	Failed  Outcome = "failed"  // refused by the API server, or not reached
)

// RecorderConfig configures a [Recorder].
type RecorderConfig struct {
	Sink   EventSink
	Node   string       // name of this node, for the Event's instance
	Logger *slog.Logger // for events that could not be written
	// Instance returns the VirtualMachineInstance of a launcher pod by the pod's UID. It must not
	// block. Optional.
	Instance func(podUID string) (corev1.ObjectReference, bool)
	// Count is called once for every event. It must not block and may be called concurrently.
	// Optional.
	Count func(Outcome)
}

// Recorder writes the agent's events about pods as Events (events.k8s.io/v1). It counts equal
// events in a series and limits pods with too many. A slow API server may cost events but never
// time. client-go's own broadcaster drops events without counting them and cannot be flushed.
type Recorder struct {
	queue    chan agentapi.Event
	sink     EventSink
	node     string
	logger   *slog.Logger
	instance func(podUID string) (corev1.ObjectReference, bool)
	count    func(Outcome)

	// Owned by the goroutine of Run.
	series    map[seriesKey]*series
	limiters  limiters
	lastStamp int64
}

// NewRecorder returns a recorder that keeps events in a queue until Run is called.
func NewRecorder(config RecorderConfig) (*Recorder, error) {
	if config.Node == "" {
		return nil, errors.New("event recorder: the node name is empty")
	}
	count := config.Count
	if count == nil {
		count = func(Outcome) {}
	}
	return &Recorder{
		queue:    make(chan agentapi.Event, queueLength),
		sink:     config.Sink,
		node:     config.Node,
		logger:   config.Logger,
		instance: config.Instance,
		count:    count,
		series:   map[seriesKey]*series{},
		limiters: limiters{},
	}, nil
}

// Record queues event. It never blocks: with a full queue the event is dropped and counted. It may
// be called concurrently, before Run and after it.
func (r *Recorder) Record(event agentapi.Event) {
	select {
	case r.queue <- event:
	default:
		r.count(Dropped)
	}
}

// Run writes queued events until ctx ends, then the rest within 5 seconds, and returns. It must be
// called once.
func (r *Recorder) Run(ctx context.Context) {
	writing, cancel := cancelledAfter(ctx, flushTimeout)
	defer cancel()
	ticker := time.NewTicker(seriesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			r.flush(writing)
			return
		case event := <-r.queue:
			r.handle(writing, event)
		case <-ticker.C:
			r.sweep(writing)
		}
	}
}

func (r *Recorder) flush(ctx context.Context) {
	for {
		select {
		case event := <-r.queue:
			r.handle(ctx, event)
		default:
			r.writeSeries(ctx)
			return
		}
	}
}

// cancelledAfter returns a context with the end of parent, delayed by grace.
func cancelledAfter(
	parent context.Context, grace time.Duration,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		select {
		case <-ctx.Done():
		case <-time.After(grace):
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}
