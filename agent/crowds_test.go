package agent

import (
	"cmp"
	"log/slog"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

type crowdReport struct {
	Cgroup string
	N      int
	Since  time.Duration
}

func TestCrowds(t *testing.T) {
	var got []crowdReport
	c := newCrowds(func(cgroup string, n int, since time.Duration) {
		got = append(got, crowdReport{cgroup, n, since})
	})
	start := time.Now()
	rescan := func(after time.Duration, noRoom map[uint64]int, want ...crowdReport) {
		t.Helper()
		got = nil
		c.update(noRoom, start.Add(after))
		slices.SortFunc(got, func(a, b crowdReport) int { return cmp.Compare(a.Cgroup, b.Cgroup) })
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("reports after %v (-want +got):\n%s", after, diff)
		}
	}
	c.name(1, "/one")
	c.name(2, "/two")
	rescan(0, nil)
	rescan(0, map[uint64]int{1: 5}, crowdReport{"/one", 5, 0})
	rescan(30*time.Second, map[uint64]int{1: 6, 2: 7}, crowdReport{"/two", 7, 0})
	rescan(time.Minute, map[uint64]int{1: 8, 2: 9}, crowdReport{"/one", 8, time.Minute})
	rescan(90*time.Second, map[uint64]int{1: 8})
	rescan(2*time.Minute, map[uint64]int{1: 8, 2: 1}, crowdReport{"/one", 8, 2 * time.Minute},
		crowdReport{"/two", 1, 0})
	reports := 0
	c.report = func(string, int, time.Duration) { reports++ }
	for after := 2 * time.Minute; after < 12*time.Hour; after += 30 * time.Second {
		c.update(map[uint64]int{1: 8}, start.Add(after))
	}
	if reports < 12 || reports > 18 {
		t.Errorf("%d reports in 12 hours, want one an hour, and a few more at first", reports)
	}
	c.forget(1)
	c.report = func(cgroup string, n int, since time.Duration) {
		got = append(got, crowdReport{cgroup, n, since})
	}
	rescan(13*time.Hour, map[uint64]int{1: 8}, crowdReport{"", 8, 0})
}

func TestCrowdEvent(t *testing.T) {
	a := &Agent{registry: registry.New(), metrics: metrics.New(metrics.Build{}),
		events: admin.NewRing(eventBacklog, eventBuffer), logger: slog.New(slog.DiscardHandler)}
	for _, id := range []string{"c1", "c2"} {
		var l registry.Launcher
		l.Pod.UID, l.Pod.Name, l.Container.ID = id, "vm-"+id, id
		a.registry.Put(l)
	}
	s := a.events.Subscribe()
	defer s.Close()
	a.reportCrowd("/kubepods/pod1/cri-containerd-c2.scope", 5, 90*time.Second)
	a.reportCrowd("", 5, 0)
	var got []agentapi.Event
	for len(got) == 0 || s.Behind() {
		e, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	isOurs := func(e agentapi.Event) bool {
		return e.Reason == agentapi.ReasonTrackerFull && e.Pod.Name == "vm-c2" &&
			e.Type == agentapi.Warning
	}
	if len(got) != 1 || !slices.ContainsFunc(got, isOurs) {
		t.Errorf("events: %+v, want one of the second launcher", got)
	}
}
