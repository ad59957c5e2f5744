package admin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func numbered(i int) agentapi.Event {
	return agentapi.Event{Message: strconv.Itoa(i)}
}

func record(r *Ring, from, to int) {
	for i := from; i < to; i++ {
		r.Record(numbered(i))
	}
}

// read returns the messages of the next n events.
func read(t *testing.T, s *Subscription, n int) []string {
	t.Helper()
	var got []string
	for range n {
		event, err := s.Next(t.Context())
		if err != nil {
			t.Fatalf("after %v: %v", got, err)
		}
		got = append(got, event.Message)
	}
	return got
}

func TestSubscriptionIsBacklogThenLive(t *testing.T) {
	r := NewRing(3, 10)
	record(r, 0, 5)
	s := r.Subscribe()
	defer s.Close()
	record(r, 5, 7)
	if diff := cmp.Diff([]string{"2", "3", "4", "5", "6"}, read(t, s, 5)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestSlowReaderIsCutOffAlone(t *testing.T) {
	r := NewRing(10, 3)
	slow, quick := r.Subscribe(), r.Subscribe()
	defer slow.Close()
	defer quick.Close()
	for i := range 5 {
		r.Record(numbered(i))
		read(t, quick, 1)
	}
	if diff := cmp.Diff([]string{"0", "1", "2"}, read(t, slow, 3)); diff != "" {
		t.Errorf("events before the cut (-want +got):\n%s", diff)
	}
	for range 2 {
		if _, err := slow.Next(t.Context()); !errors.Is(err, ErrSlow) {
			t.Errorf("after the cut: %v, want ErrSlow", err)
		}
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	s := NewRing(1, 1).Subscribe()
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v, want context.Canceled", err)
	}
}

func TestClosedSubscriptionIsForgotten(t *testing.T) {
	r := NewRing(1, 1)
	s := r.Subscribe()
	s.Close()
	s.Close()
	record(r, 0, 5)
	if len(r.subscribers) != 0 {
		t.Errorf("%d subscribers, want none", len(r.subscribers))
	}
}

// Every reader gets an unbroken sequence from each writer. The race detector checks the rest.
func TestRingConcurrently(t *testing.T) {
	const writers, each = 4, 200
	r := NewRing(10, writers*each)
	var writing, reading sync.WaitGroup
	for range 3 {
		s := r.Subscribe()
		reading.Go(func() {
			defer s.Close()
			next := map[string]int{}
			for range writers * each {
				event, err := s.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if got, want := event.Message, fmt.Sprint(next[event.Pod.Name]); got != want {
					t.Errorf("writer %s: event %s, want %s", event.Pod.Name, got, want)
				}
				next[event.Pod.Name]++
			}
		})
	}
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				event := numbered(i)
				event.Pod.Name = strconv.Itoa(w)
				r.Record(event)
			}
		})
	}
	writing.Wait()
	reading.Wait()
}

// A full ring drops the oldest event of the pod with the most events.
func TestRingKeepsEventsOfQuietPods(t *testing.T) {
	r := NewRing(4, 10)
	add := func(pod, message string) {
		r.Record(agentapi.Event{Pod: agentapi.PodRef{UID: pod}, Message: message})
	}
	add("quiet", "q1")
	for i := range 6 {
		add("noisy", strconv.Itoa(i))
	}
	add("other", "o1")
	add("other", "o2")
	s := r.Subscribe()
	defer s.Close()
	if diff := cmp.Diff([]string{"q1", "5", "o1", "o2"}, read(t, s, 4)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
