package gate

import (
	"errors"
	"fmt"
	"time"
)

const startAgent = "start the agent, and see `mooring doctor`"

// alive reports whether a process lives. It is unknown with an error.
type alive func(pid int, ticks uint64) (bool, error)

// decide returns nil if the domain has an active owner, else the reason for a refusal.
func (s State) decide(d definition, now time.Duration, isAlive alive) error {
	if s.old(now) {
		return fmt.Errorf("the agent's state is %s old, want at most %s; %s",
			(now - s.Written).Round(time.Second), MaxAge, startAgent)
	}
	var refusals []error
	for _, o := range s.Owners {
		if o.Domain != d.name && o.Domain != d.uuid {
			continue
		}
		err := o.check(now, isAlive)
		if err == nil {
			return nil
		}
		refusals = append(refusals, fmt.Errorf("its pod %s: %w", o.Pod, err))
	}
	if len(refusals) == 0 {
		return fmt.Errorf("no launcher on this node declares it; create a pod with the annotation "+
			"domain.lifecycle.mooring.dev: %q", d.name)
	}
	return errors.Join(refusals...)
}

// old reports whether a running agent would have replaced the state.
func (s State) old(now time.Duration) bool {
	age := now - s.Written
	return age < 0 || age > MaxAge
}

// check returns nil for an active launcher with a fresh heartbeat.
func (o Owner) check(now time.Duration, isAlive alive) error {
	if o.Inactive != "" {
		return errors.New(o.Inactive)
	}
	lives, err := isAlive(o.PID, o.Ticks)
	switch {
	case err != nil:
		return fmt.Errorf("its launcher process %d is unknown: %w", o.PID, err)
	case !lives:
		return fmt.Errorf("its launcher process %d has ended; start the pod again", o.PID)
	case o.HeartbeatUntil > 0 && now > o.HeartbeatUntil:
		return fmt.Errorf("its heartbeat is late by %s; check its launcher",
			(now - o.HeartbeatUntil).Round(time.Millisecond))
	}
	return nil
}
