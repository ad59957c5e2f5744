package controller

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
)

// eventRate is how many Events are written in a second, and at once. They are for people:
// when a thousand migrations begin, three thousand of them must not keep quotas waiting.
const eventRate = 50

// newRecorder returns a recorder of Events that does not block, and has calls of its own to
// the API server until ctx ends.
func (c *Controller) newRecorder(ctx context.Context) (events.EventRecorder, error) {
	config := rest.CopyConfig(c.manager.GetConfig())
	config.QPS, config.Burst = eventRate, eventRate
	client, err := eventsv1.NewForConfigAndClient(config, c.manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for Events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client})
	context.AfterFunc(ctx, broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("recording Events: %w", err)
	}
	return broadcaster.NewRecorder(c.manager.GetScheme(), Name), nil
}
