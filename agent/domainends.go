package agent

import (
	"context"
	"errors"
	"time"

	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const (
	// reconnectPause is the pause between two connections for events.
	reconnectPause = time.Second

	// whyEndedPoll is the period of questions for the reason of an end. The VM process ends before
	// libvirt notices that.
	whyEndedPoll = 250 * time.Millisecond
)

// domainEnd is the last end of a domain.
type domainEnd struct {
	reason vmfile.Reason
	at     host.Boottime // arrival of the event
}

// followEnds keeps the last end of each domain until ctx ends. It drops events during a restart of
// libvirt.
func (d *domains) followEnds(ctx context.Context) {
	failed := false
	for {
		err := d.daemon.FollowEnds(ctx, func(id string, reason vmfile.Reason) {
			failed = false
			d.setEnd(id, reason)
		})
		if ctx.Err() != nil {
			return
		}
		if !failed {
			d.logger.Info("the agent reconnects to libvirt for events", "error", err)
		}
		failed = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnectPause):
		}
	}
}

// maxEnds bounds the remembered ends. The reason of an end is due within seconds.
const maxEnds = 1024

// setEnd keeps an end, and forgets all others if there are too many.
func (d *domains) setEnd(id string, reason vmfile.Reason) {
	now := d.clock.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil || len(d.ends) >= maxEnds {
		d.ends = map[string]domainEnd{}
	}
	d.ends[id] = domainEnd{reason, now}
}

// endSince returns the reason for an end after the given time, empty if there was none.
func (d *domains) endSince(id string, started host.Boottime) vmfile.Reason {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end, ok := d.ends[id]; ok && end.at >= started {
		return end.reason
	}
	return ""
}

// WhyEnded implements [supervisor.Domains]. While libvirt is away, it waits.
func (d *domains) WhyEnded(
	ctx context.Context, domain tie.Domain, started host.Boottime,
) (vmfile.Reason, error) {
	for {
		reason := d.endSince(domain.UUID, started)
		var err error
		if reason == "" {
			reason, err = d.daemon.WhyInactive(ctx, domain.UUID)
		}
		if reason != "" {
			return reason, nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(context.Cause(ctx), err)
		case <-time.After(whyEndedPoll):
		}
	}
}
