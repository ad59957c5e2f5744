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

// Events calls handle for each event, also for those that were written while
// nobody read, until ctx ends, and returns its error. It blocks, and calls handle
// from no other goroutine; while handle runs, events wait in the ring. It has to
// return before Close. A second call at the same time fails with ErrBusy.
//
// Events of emulators are read at once, also of one that executes something else,
// and so are exits of watched processes. Other events may wait for a second.
func (t *Tracker) Events(ctx context.Context, handle func(Event)) error {
	if !t.reading.TryLock() {
		return fmt.Errorf("reading events: %w by another call", ErrBusy)
	}
	defer t.reading.Unlock()
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
		t.tellLost(handle)
		reader.SetDeadline(time.Now().Add(t.options.patience))
		err := t.readUntil(reader, &record, handle)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// readUntil reads until the reader's deadline.
func (t *Tracker) readUntil(reader *ringbuf.Reader, record *ringbuf.Record, handle func(Event)) error {
	for {
		if err := reader.ReadInto(record); err != nil {
			return err
		}
		event, err := decodeEvent(record.RawSample)
		if err != nil {
			t.options.Logger.Error("an event cannot be read", slog.Any("error", err))
			continue
		}
		handle(event)
		if record.Remaining == 0 {
			t.tellLost(handle)
		}
	}
}

// tellLost tells of events and processes that were lost since it last did.
func (t *Tracker) tellLost(handle func(Event)) {
	lost, err := t.losses()
	if err != nil {
		t.options.Logger.Error("losses cannot be counted", slog.Any("error", err))
		return
	}
	if lost != t.lost || t.behind {
		t.lost, t.behind = lost, false
		handle(Event{Kind: Lost})
	}
}

// losses returns how many events and processes were lost.
func (t *Tracker) losses() (uint64, error) {
	events, err := t.count(trackerCounterCOUNT_LOST_EVENTS)
	if err != nil {
		return 0, err
	}
	processes, err := t.lostProcesses()
	return events + processes, err
}
