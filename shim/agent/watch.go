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
	quiet = 45 * time.Second

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
		c.follow(ctx, func() {
			select {
			case hints <- struct{}{}:
			default:
			}
		})
	}()
	return hints, nil
}

// follow reads the stream of changes until ctx is done, and connects again where it
// ends.
func (c *Client) follow(ctx context.Context, hint func()) {
	pause := leastPause
	for ctx.Err() == nil {
		if c.read(ctx, hint) {
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

// read reads one stream to its end, and reports whether it told anything. Lines that
// only show that the connection is there are no hints, but for the first.
func (c *Client) read(ctx context.Context, hint func()) (told bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(quiet, func() { cancel(fmt.Errorf("the agent told nothing for %s", quiet)) })
	defer silence.Stop()
	body, err := c.open(ctx, http.MethodGet, podapi.PathChanges, nil)
	if err != nil {
		return false
	}
	defer body.Close()
	for decoder := json.NewDecoder(body); ; told = true {
		var change podapi.Change
		if decoder.Decode(&change) != nil {
			return told
		}
		silence.Reset(quiet)
		if !told {
			c.tellAgain(ctx)
		}
		if !told || change.Changed != podapi.ChangedNone {
			hint()
		}
	}
}

// tellAgain tells an agent that may have been started again what the VM needs. What it
// refuses is found when it is told something new.
func (c *Client) tellAgain(ctx context.Context) {
	c.mu.Lock()
	need := c.need
	c.mu.Unlock()
	if need != nil {
		_ = c.put(ctx, podapi.PathNeed, need)
	}
}
