package bpf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cilium/ebpf/ringbuf"
)

// Events calls handle for each event until ctx ends, and returns the error of ctx. Events written
// before the call come first. It blocks, and calls handle from its own goroutine only. While handle
// runs, events wait in the ring. Close may be called only after Events has returned. A second
// concurrent call fails with ErrBusy.
//
// Events of emulators arrive at once, also the exec of another file, and so do exits of watched
// processes. Other events may wait for a second.
func (t *Tracker) Events(ctx context.Context, handle func(Event)) error {
	if !t.readMutex.TryLock() {
		return fmt.Errorf("reading events: %w by another call", ErrBusy)
	}
	defer t.readMutex.Unlock()
	reader, err := ringbuf.NewReader(t.maps[trackerMapEvents])
	if err != nil {
		return fmt.Errorf("reading events: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = reader.Close() })
	defer stop()
	defer func() { _ = reader.Close() }()
	err = t.read(reader, handle)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("reading events: %w", err)
}

func (t *Tracker) read(reader *ringbuf.Reader, handle func(Event)) error {
	var record ringbuf.Record
	for {
		t.reportLost(handle)
		reader.SetDeadline(time.Now().Add(t.options.readInterval))
		err := t.readUntil(reader, &record, handle)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// readUntil reads until the deadline of the reader.
func (t *Tracker) readUntil(
	reader *ringbuf.Reader, record *ringbuf.Record, handle func(Event),
) error {
	for {
		if err := reader.ReadInto(record); err != nil {
			return err
		}
		event, err := decodeEvent(record.RawSample)
		if err != nil {
			t.options.Logger.Error("cannot decode an event", slog.Any("error", err))
			continue
		}
		handle(event)
		if record.Remaining == 0 {
			t.reportLost(handle)
		}
	}
}

// reportLost calls handle with a Lost event if events were lost since its last call.
func (t *Tracker) reportLost(handle func(Event)) {
	lost, err := t.countLosses()
	if err != nil {
		t.options.Logger.Error("cannot count lost events", slog.Any("error", err))
		return
	}
	if lost != t.reportedLosses || t.eventsMissing {
		t.reportedLosses, t.eventsMissing = lost, false
		handle(Event{Kind: Lost})
	}
}

// countLosses returns the number of lost events and skipped handler calls so far. Processes without
// room do not count: a Resync cannot add them.
func (t *Tracker) countLosses() (uint64, error) {
	events, err := t.count(trackerCounterCOUNT_LOST_EVENTS)
	if err != nil {
		return 0, err
	}
	skipped, err := t.skippedCalls()
	return events + skipped, err
}
