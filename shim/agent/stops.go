package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
)

// retryEvery is the time between two attempts to read the stop request.
const retryEvery = time.Second

// Stops registers the pod as a stop handler until ctx ends: the agent sends it a stop request
// before it ends the VM itself. The caller must be able to shut the guest down. The channel gets
// the current request after each connection and each change; it closes when ctx ends. It has space
// for one element, and a newer request replaces an unread one. While the agent is away there is no
// new request.
func (c *Client) Stops(ctx context.Context) <-chan podapi.Stop {
	stops, hints := make(chan podapi.Stop, 1), make(chan struct{}, 1)
	go c.follow(ctx, podapi.PathChanges+"?"+podapi.QueryStopHandler+"=1",
		func(_ context.Context, change podapi.Change, first bool) {
			if first || change.Changed == podapi.ChangedStop {
				hint(hints)
			}
		})
	go func() {
		defer close(stops)
		c.followStops(ctx, hints, stops)
	}()
	return stops
}

// followStops reads the stop request after each hint, and retries until the agent answers.
func (c *Client) followStops(ctx context.Context, hints <-chan struct{}, stops chan podapi.Stop) {
	again := time.NewTimer(0)
	defer again.Stop()
	for again.Stop(); ; {
		select {
		case <-ctx.Done():
			return
		case <-hints:
		case <-again.C:
		}
		stop, err := ask[podapi.Stop](ctx, c, http.MethodGet, podapi.PathStop, nil)
		if errors.Is(err, resize.ErrAgent) {
			again.Reset(retryEvery)
		}
		if err != nil {
			continue
		}
		select {
		case <-stops:
		default:
		}
		stops <- stop
	}
}

// hint leaves a hint, unless there is one.
func hint(hints chan<- struct{}) {
	select {
	case hints <- struct{}{}:
	default:
	}
}
