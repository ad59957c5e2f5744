package agent

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const (
	// A pod can cause events as fast as it executes programs. Beyond podEventBurst at once, it gets
	// one event each podEventPeriod.
	podEventBurst  = 60
	podEventPeriod = time.Second

	// sweepEventLimits is the number of pods that triggers a sweep of quiet ones.
	sweepEventLimits = 256
)

// eventLimits are the limits of all pods, by UID.
type eventLimits struct {
	mu   sync.Mutex
	pods map[string]*eventLimit
}

// eventLimit is the limit of a pod.
type eventLimit struct {
	*rate.Limiter
	leftOut int // Events dropped since the last recorded one
}

// eventLimiter is a recorder that limits the Events of each pod. One pod cannot push the Events of
// other pods out of a bounded buffer.
type eventLimiter struct {
	limits *eventLimits
	next   registry.Recorder
}

// Record implements [registry.Recorder].
func (l eventLimiter) Record(event agentapi.Event) {
	leftOut, ok := l.limits.take(event.Pod.UID)
	if !ok {
		return
	}
	if leftOut > 0 {
		event.Message += fmt.Sprintf(" (%d Events of this pod are left out before this one)",
			leftOut)
	}
	l.next.Record(event)
}

// take reports whether an event of a pod may pass, and how many events did not since the last one.
func (l *eventLimits) take(uid string) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.pods[uid]
	if limit == nil {
		limit = l.add(uid)
	}
	if !limit.Allow() {
		limit.leftOut++
		return 0, false
	}
	leftOut, limit.leftOut = limit.leftOut, 0
	return leftOut, true
}

// add adds a pod. With many pods it drops the quiet ones, and their counts. The caller holds mu.
func (l *eventLimits) add(uid string) *eventLimit {
	if l.pods == nil {
		l.pods = map[string]*eventLimit{}
	}
	if len(l.pods) >= sweepEventLimits {
		for known, limit := range l.pods {
			if limit.Tokens() >= podEventBurst {
				delete(l.pods, known)
			}
		}
	}
	limit := &eventLimit{Limiter: rate.NewLimiter(rate.Every(podEventPeriod), podEventBurst)}
	l.pods[uid] = limit
	return limit
}
