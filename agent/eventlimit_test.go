package agent

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

func eventOf(pod string) agentapi.Event {
	return agentapi.Event{Reason: agentapi.ReasonVMStarted, Pod: agentapi.PodRef{UID: pod}}
}

// A pod executes an emulator 2,000 times in ten seconds.
func TestAPodFloodsTheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Agent{metrics: metrics.New(metrics.Build{}),
			events: admin.NewRing(eventBacklog, eventBuffer)}
		a.recorders().Record(eventOf("quiet"))
		for range 2000 {
			a.recorders().Record(eventOf("noisy"))
			time.Sleep(5 * time.Millisecond)
		}
		s := a.events.Subscribe()
		defer s.Close()
		counts := map[string]int{}
		for s.Behind() {
			e, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			counts[e.Pod.UID]++
		}
		if counts["quiet"] != 1 || counts["noisy"] < podEventBurst ||
			counts["noisy"] > podEventBurst+11 {
			t.Errorf("events by pod: %v, want the other pod's, and %d to %d", counts, podEventBurst,
				podEventBurst+11)
		}
	})
}

// The first event after the limit counts the events left out.
func TestLimitedEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var next lifecycletest.Recorder
		l := eventLimiter{next: &next, limits: &eventLimits{}}
		for range podEventBurst + 5 {
			l.Record(eventOf("noisy"))
		}
		if got := len(next.Events()); got != podEventBurst {
			t.Errorf("%d events at once, want %d", got, podEventBurst)
		}
		time.Sleep(podEventPeriod)
		l.Record(eventOf("noisy"))
		time.Sleep(podEventPeriod)
		l.Record(eventOf("noisy"))
		got := next.Events()[podEventBurst:]
		if len(got) != 2 ||
			!strings.Contains(got[0].Message, "5 Events of this pod are left out") ||
			got[1].Message != "" {
			t.Errorf("then %+v, want the first of two to count 5", got)
		}
	})
}

// Pods come and go, some after a flood of events.
func TestEventLimitsForgetQuietPods(t *testing.T) {
	for _, events := range []int{1, podEventBurst + 1} {
		synctest.Test(t, func(t *testing.T) {
			var next lifecycletest.Recorder
			l := eventLimiter{next: &next, limits: &eventLimits{}}
			for i := range 5 * sweepEventLimits {
				for range events {
					l.Record(eventOf(strconv.Itoa(i)))
				}
				time.Sleep(podEventPeriod)
			}
			most := sweepEventLimits + podEventBurst + 1
			if n := len(l.limits.pods); n > most {
				t.Errorf("limits of %d pods with %d events each, want at most %d", n, events, most)
			}
		})
	}
}
