package agent

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func journaled(name string) agentapi.Event {
	return agentapi.Event{
		Time: time.Unix(1, 2).UTC(), Type: agentapi.Warning, Reason: agentapi.ReasonVMKilled,
		Message: "it\nended",
		Pod: agentapi.PodRef{Namespace: "vms",
			Name: name}, Container: agentapi.ContainerRef{Name: "compute", PID: 7},
	}
}

func TestJournal(t *testing.T) {
	j := newJournal(t.TempDir(), discard)
	if events, err := j.drain(); len(events) != 0 || err != nil {
		t.Errorf("without a file: %v, %v", events, err)
	}
	for _, name := range []string{"a", "b"} {
		j.Record(journaled(name))
	}
	if info, err := os.Stat(j.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v, want mode 0600", info, err)
	}
	events, err := j.drain()
	if diff := cmp.Diff([]agentapi.Event{journaled("a"), journaled("b")}, events); diff != "" ||
		err != nil {
		t.Errorf("events: %v (-want +got)\n%s", err, diff)
	}
	if again, err := j.drain(); len(again) != 0 || err != nil {
		t.Errorf("returned twice: %v, %v", again, err)
	}
}

// No event gets lost while an agent reads and the fence writes.
func TestJournalWhileTheFenceWrites(t *testing.T) {
	writer := newJournal(t.TempDir(), discard)
	const events = 500
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range events {
			writer.Record(journaled("a"))
		}
	}()
	drained := 0
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		got, err := writer.drain()
		if err != nil {
			t.Fatal(err)
		}
		drained += len(got)
	}
	if drained != events {
		t.Errorf("%d of %d events came back", drained, events)
	}
}

// An earlier agent has renamed the file without reading it. The next agent reads it.
func TestJournalOfAnEarlierAgent(t *testing.T) {
	j := newJournal(t.TempDir(), discard)
	j.Record(journaled("a"))
	taken := j.path + ".taken"
	if err := os.Rename(j.path, taken); err != nil {
		t.Fatal(err)
	}
	j.Record(journaled("b"))
	if f, err := os.OpenFile(taken, os.O_APPEND|os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	} else if _, err := f.WriteString("half a li"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	events, err := j.drain()
	if diff := cmp.Diff([]agentapi.Event{journaled("a"), journaled("b")}, events); diff != "" ||
		err == nil {
		t.Errorf("events: %v, want an error for the broken line (-want +got)\n%s", err, diff)
	}
	if again, err := j.drain(); len(again) != 0 || err != nil {
		t.Errorf("returned twice: %v, %v", again, err)
	}
}

func TestJournalIsBounded(t *testing.T) {
	log := &syncBuffer{}
	j := newJournal(t.TempDir(), textLogger(log))
	long := journaled("a")
	long.Message = strings.Repeat("x", 1000)
	for range 1000 {
		j.Record(long)
	}
	info, err := os.Stat(j.path)
	if err != nil || info.Size() > maxJournal || info.Size() < maxJournal-2000 {
		t.Errorf("the file: %+v, %v, want at most %d bytes", info, err, maxJournal)
	}
	checkLines(t, log, 1, "is full")
	if events, err := j.drain(); len(events) < 200 || err != nil {
		t.Errorf("%d events, %v", len(events), err)
	}
}

func FuzzParseJournal(f *testing.F) {
	f.Add([]byte("{\"reason\":\"VMKilled\"}\n{}\n"))
	f.Add([]byte("{\"time\":1}\nnull\n{\"reason\""))
	f.Fuzz(func(t *testing.T, content []byte) {
		events, err := parseJournal(content)
		if lines := strings.Count(string(content), "\n") + 1; len(events) > lines {
			t.Errorf("%d events in %d lines, %v", len(events), lines, err)
		}
	})
}

// The next agent reports the events of the fence, once.
func TestAgentReportsEventsOfTheFence(t *testing.T) {
	config := testConfig(t)
	newJournal(config.Root, discard).Record(journaled("a"))
	for _, want := range []int{1, 0} {
		a := start(t, config)
		eventually(t, "an attempt to connect, which comes after", func() bool {
			return strings.Contains(a.log.String(), "no connection to the container runtime")
		})
		_, page := a.get(t, "/metrics")
		if got := strings.Count(page,
			`mooring_events_total{reason="VMKilled",type="Warning"} 1`); got != want {
			t.Errorf("%d times in the metrics, want %d", got, want)
		}
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
