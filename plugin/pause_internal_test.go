package plugin

import (
	"errors"
	"testing"
	"time"
)

func TestPauses(t *testing.T) {
	c := &Connection{ConnectionConfig: ConnectionConfig{MinBackoff: 250 * time.Millisecond,
		MaxBackoff: 15 * time.Second}}
	absent, broken := dialError{errors.New("no such file")}, errLost
	longest := func(err error, p *pauses) (last time.Duration) {
		for range 20 {
			last = c.pauseAfter(err, p)
		}
		return last
	}
	var p pauses
	if got := longest(broken, &p); got < 15*time.Second {
		t.Errorf("pause after many broken connections = %s, want 15 s at least", got)
	}
	if got := longest(absent, &p); got < time.Second || got > 2*time.Second {
		t.Errorf("pause while there is no runtime = %s, want a second or a little more", got)
	}
	// A runtime that comes and breaks at once is still not called in a loop.
	if got := c.pauseAfter(broken, &p); got < 15*time.Second {
		t.Errorf("pause after one more broken connection = %s, want 15 s at least", got)
	}
	if got := c.pauseAfter(absent, &p); got > time.Second {
		t.Errorf("pause once the runtime is away again = %s, want it to begin anew", got)
	}
}
