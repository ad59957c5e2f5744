package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

const (
	// maxSilence bounds the time without a line: the agent sends one every 30 s.
	maxSilence = 45 * time.Second

	// leastPause and mostPause bound the pause between two connections, which doubles.
	leastPause = 250 * time.Millisecond
	mostPause  = 10 * time.Second
)

// Changed implements [resize.Node]. It also gives a hint when [Client.Desired] may have changed,
// and after each new connection. The channel has space for one hint, which stands for several.
func (c *Client) Changed(ctx context.Context) (<-chan struct{}, error) {
	hints := make(chan struct{}, 1)
	go func() {
		defer close(hints)
		c.follow(ctx, podapi.PathChanges, func(ctx context.Context, change podapi.Change,
			first bool) {
			if first {
				c.repeatRequirement(ctx)
			}
			if first || change.Changed != podapi.ChangedNone {
				hint(hints)
			}
		})
	}()
	return hints, nil
}

// onChange is called for each line of a stream. first is true for the first line after a
// connection.
type onChange func(ctx context.Context, change podapi.Change, first bool)

// follow reads a stream of changes, and connects again after its end, until ctx ends.
func (c *Client) follow(ctx context.Context, path string, onLine onChange) {
	pause := leastPause
	for ctx.Err() == nil {
		if c.read(ctx, path, onLine) {
			pause = leastPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, mostPause)
	}
}

// read reads one stream to its end and reports whether it got a line.
func (c *Client) read(ctx context.Context, path string, onLine onChange) (some bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() {
		cancel(fmt.Errorf("no line from the agent for %s", maxSilence))
	})
	defer silence.Stop()
	body, err := c.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return false
	}
	defer body.Close()
	for decoder := json.NewDecoder(body); ; some = true {
		var change podapi.Change
		if decoder.Decode(&change) != nil {
			return some
		}
		silence.Reset(maxSilence)
		onLine(ctx, change, !some)
	}
}

// repeatRequirement sends the memory requirement again, because the agent may have restarted. A
// refusal shows at the next new requirement.
func (c *Client) repeatRequirement(ctx context.Context) {
	select {
	case need := <-c.requirement:
		defer func() { c.requirement <- need }()
		if need != nil {
			_ = c.put(ctx, podapi.PathMemoryRequirement, need)
		}
	case <-ctx.Done():
	}
}
