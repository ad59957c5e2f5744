package controller

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
)

// eventRate is the rate of Events per second, and the burst. Events are for people: the thousands
// of Events of a thousand migrations must not delay quotas.
const eventRate = 50

// newRecorder returns a recorder of Events that does not block. It has its own API client until ctx
// ends.
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
