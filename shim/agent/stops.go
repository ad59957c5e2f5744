package agent

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
)

// askAgain is how soon the agent is asked again what it wants, if it has not answered.
const retryEvery = time.Second

// Stops has the agent ask the pod before it ends the VM by itself, until ctx ends: to
// be called by who can end it gracefully. It returns what the agent asks for, after each
// connection and as it changes, until ctx ends. The channel has room for one: what
// nobody has taken yet is replaced. An agent that is away asks for nothing new.
func (c *Client) Stops(ctx context.Context) <-chan podapi.Stop {
	stops, hints := make(chan podapi.Stop, 1), make(chan struct{}, 1)
	go c.follow(ctx, podapi.PathChanges+"?"+podapi.QueryStopHandler+"=1", func(_ context.Context, change podapi.Change, first bool) {
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

// askWhat asks what the agent wants after each hint, until it answers.
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

// give leaves a hint, if there is none yet.
func hint(hints chan<- struct{}) {
	select {
	case hints <- struct{}{}:
	default:
	}
}
