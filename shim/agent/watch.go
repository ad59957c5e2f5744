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
	// quiet is how long a stream may tell nothing: the agent tells something every 15 s.
	maxSilence = 45 * time.Second

	// leastPause and mostPause bound the time between two attempts to connect, which
	// doubles.
	leastPause = 250 * time.Millisecond
	mostPause  = 10 * time.Second
)

// Changed implements [resize.Node]. It also has a hint when [Client.Wanted] may tell
// something else, and after each connection that was made anew. The channel has room for
// one: hints that nobody has taken yet are one.
func (c *Client) Changed(ctx context.Context) (<-chan struct{}, error) {
	hints := make(chan struct{}, 1)
	go func() {
		defer close(hints)
		c.follow(ctx, podapi.PathChanges, func(ctx context.Context, change podapi.Change, first bool) {
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

// told is called for each line of a stream. Those that only show that the connection is
// there are no hints, but for the first.
type onChange func(ctx context.Context, change podapi.Change, first bool)

// follow reads a stream of changes until ctx ends, and connects again where it ends.
func (c *Client) follow(ctx context.Context, path string, tell onChange) {
	pause := leastPause
	for ctx.Err() == nil {
		if c.read(ctx, path, tell) {
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

// read reads one stream to its end, and reports whether it told anything.
func (c *Client) read(ctx context.Context, path string, tell onChange) (some bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(fmt.Errorf("the agent told nothing for %s", maxSilence)) })
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
		tell(ctx, change, !some)
	}
}

// tellAgain tells an agent that may have been started again what the VM needs. What it
// refuses is found when it is told something new.
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
