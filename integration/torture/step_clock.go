package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxClockStep bounds the step of the node's wall clock.
	maxClockStep = 24 * time.Hour

	// maxClockPeriod bounds the time until the clock is right again.
	maxClockPeriod = 3 * time.Second
)

// stepClock sets the node's wall clock forward or back, and right again later. Leases, heartbeats,
// stop requests and stages must not depend on the wall clock: no VM ends before or after its time.
func stepClock(ctx context.Context, w *world) (string, error) {
	if !w.clockSteps.CompareAndSwap(false, true) {
		return "", errSkip
	}
	by := time.Duration(w.rand.Int64N(2*int64(maxClockStep))) - maxClockStep
	d := time.Duration(w.rand.Int64N(int64(maxClockPeriod)))
	if err := addToClock(by); err != nil {
		w.clockSteps.Store(false)
		return "", err
	}
	w.background.Go(func() {
		defer w.clockSteps.Store(false)
		pause(ctx, d)
		if err := addToClock(-by); err != nil {
			w.logf("setting the clock right: %v", err)
		}
	})
	return fmt.Sprintf("by %s for %s", by.Round(time.Second), d), nil
}

// addToClock changes the wall clock. It loses the few microseconds between reading and setting.
func addToClock(d time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return fmt.Errorf("reading the wall clock: %w", err)
	}
	next := unix.NsecToTimespec(now.Nano() + int64(d))
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &next); err != nil {
		return fmt.Errorf("setting the wall clock: %w", err)
	}
	return nil
}
