package cli

import (
	"cmp"
	"fmt"
	"time"
)

// progressPeriod is the time after which a step shows that it goes on.
const progressPeriod = 2 * time.Second

// progress writes text to the error output every two seconds, if it differs from the last one. The
// caller ends it, and writes nothing to the error output before.
func (p *Program) progress(text func() string) (end func()) {
	ticker := time.NewTicker(cmp.Or(p.progressPeriod, progressPeriod))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		p.writeProgress(ticker.C, stop, text)
	}()
	return func() {
		ticker.Stop()
		close(stop)
		<-done
	}
}

// reading is progress for a read from the API server, or without a cluster from the agent.
func (p *Program) reading(c *cluster, subject string) (end func()) {
	from := "the agent"
	if c != nil {
		from = c.config.Host
	}
	return p.progress(func() string { return "reading " + subject + " from " + from })
}

func (p *Program) writeProgress(ticks <-chan time.Time, stop <-chan struct{},
	text func() string) {
	written := ""
	for {
		select {
		case <-stop:
			return
		case <-ticks:
			if next := text(); next != written {
				fmt.Fprintln(p.ErrOut, oneLine(next))
				written = next
			}
		}
	}
}
