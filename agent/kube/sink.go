package kube

import (
	"context"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// EventSink writes Events (events.k8s.io/v1). Both methods return the Event of the API server.
type EventSink interface {
	// Create creates the Event in its namespace.
	Create(context.Context, *eventsv1.Event) (*eventsv1.Event, error)

	// Patch changes an Event by a strategic merge patch.
	Patch(ctx context.Context, old *eventsv1.Event, patch []byte) (*eventsv1.Event, error)
}

// NewEventSink returns the sink of a client for the group of Events.
func NewEventSink(client rest.Interface) EventSink { return eventSink{client} }

type eventSink struct{ client rest.Interface }

const eventResource = "events"

func (s eventSink) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	created := &eventsv1.Event{}
	err := s.client.Post().Namespace(e.Namespace).Resource(eventResource).Body(e).Do(ctx).
		Into(created)
	return created, err
}

func (s eventSink) Patch(
	ctx context.Context, old *eventsv1.Event, patch []byte,
) (*eventsv1.Event, error) {
	patched := &eventsv1.Event{}
	err := s.client.Patch(types.StrategicMergePatchType).Namespace(old.Namespace).
		Resource(eventResource).Name(old.Name).Body(patch).Do(ctx).Into(patched)
	return patched, err
}
