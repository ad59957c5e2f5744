package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/bench/stats"
)

const (
	// deathsInRound launchers die one after the other with Mooring, and at random moments of a
	// second with the polling watcher.
	deathsInRound = 40

	// byHandInRound is the number of VM processes ended by hand.
	byHandInRound = 10

	// calm is the pause before a launcher dies, so that earlier starts and ends do not disturb the
	// measurement.
	calm = 20 * time.Millisecond

	mostAsked  = 1e-3
	mostBeyond = 10e-3
)

// The measured steps of a death, and the measured programs.
const (
	toSent      = "launcher dies, until SIGTERM is sent"
	toAsked     = "launcher dies, until the VM has SIGTERM"
	toConfirmed = "launcher dies, until the VM is confirmed gone"
	ownEnd      = "the VM's own end: from SIGTERM until gone"
	beyondEnd   = "confirmed gone, beyond the VM's own end"

	standIn  = "stand-in of 64 MiB"
	realQEMU = "QEMU"

	least       = "a pidfd, and nothing else"
	onceASecond = "a look every second"
	alone       = "SIGTERM by hand"
)

// deathAmounts are the numbers of measurements.
type deathAmounts struct {
	residents int // permanent launchers
	rounds    int
	inRound   int
	qemu      int // number of real VMs
}

// deaths measures launchers' deaths on a node with many launchers, with the agent and with a
// watcher that polls every second.
func deaths(ctx context.Context, binary string, a deathAmounts) (_ samples, err error) {
	dir, err := os.MkdirTemp("", "bench-programs")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs, err := findEmulators(dir)
	if err != nil {
		return nil, err
	}
	w, err := openAgentNode(ctx, binary, a.residents)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	found := samples{}
	for range a.rounds {
		if err := w.round(ctx, programs, a.inRound, found); err != nil {
			return nil, err
		}
	}
	if programs.qemu == "" {
		return found, nil
	}
	for range a.qemu {
		program := func() *exec.Cmd { return qemuVM(ctx, programs.qemu) }
		if err := w.pair(ctx, program, realQEMU, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// round kills launchers with Mooring and with the minimal watcher, in random order. It also ends
// VMs by hand, and kills as many launchers with the polling watcher.
func (w *agentNode) round(ctx context.Context, programs emulators, n int, found samples) error {
	program := func() *exec.Cmd { return standInVM(ctx, programs.standIn, vmMemory) }
	for i := range n {
		with := w.one
		if i%(deathsInRound/byHandInRound) == 0 {
			with = w.pair
		}
		for _, who := range inRandomOrder(mooring, least) {
			var err error
			if who == mooring {
				err = with(ctx, program, standIn, found)
			} else {
				err = recordLeastDeath(ctx, programs.self, found)
			}
			if err != nil {
				return err
			}
		}
	}
	late, err := pollDeaths(ctx, programs.self, n)
	if err != nil {
		return fmt.Errorf("%s: %w", onceASecond, err)
	}
	for _, took := range late {
		found.add(cell(onceASecond, toAsked), took)
	}
	return nil
}

// pair kills a launcher, and ends a VM of the same kind by hand.
func (w *agentNode) pair(
	ctx context.Context, program func() *exec.Cmd, kind string, found samples,
) error {
	took, err := byHand(ctx, program())
	if err != nil {
		return fmt.Errorf("%s, %s: %w", kind, alone, err)
	}
	found.add(cell(kind, ownEnd), took)
	return w.one(ctx, program, kind, found)
}

// one kills a launcher.
func (w *agentNode) one(
	ctx context.Context, program func() *exec.Cmd, kind string, found samples,
) (err error) {
	d, err := w.newLauncher()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.removeLauncher(context.WithoutCancel(ctx), d)) }()
	if err := w.launch(ctx, d, program()); err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	took, err := d.die(ctx, kind == standIn)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	found.add(cell(kind, toSent), took.sent)
	if kind == standIn {
		found.add(cell(kind, toAsked), took.asked)
	}
	found.add(cell(kind, toConfirmed), took.confirmed)
	found.add(cell(kind, beyondEnd), took.beyond)
	return nil
}

// recordLeastDeath kills a launcher with the minimal watcher.
func recordLeastDeath(ctx context.Context, program string, found samples) error {
	took, err := leastDeath(ctx, program)
	if err != nil {
		return fmt.Errorf("%s: %w", least, err)
	}
	found.add(cell(least, toSent), took.sent)
	found.add(cell(least, toAsked), took.asked)
	return nil
}

// deathRows omits rows without measurements: QEMU may be missing, and does not report its SIGTERM.
func deathRows(s samples) []report.Row {
	var rows []report.Row
	for _, what := range []string{toSent, toAsked} {
		base := s[cell(least, what)]
		rows = append(rows, many(what, least, base))
		for _, who := range []string{standIn, onceASecond} {
			if values := s[cell(who, what)]; len(values) > 0 {
				row := deathRow(what, who, values)
				ratio := stats.RatioOfMedians(values, base)
				row.Ratio = &ratio
				rows = append(rows, row)
			}
		}
	}
	for _, kind := range []string{standIn, realQEMU} {
		for _, what := range []string{toSent, toConfirmed, ownEnd, beyondEnd} {
			values := s[cell(kind, what)]
			if len(values) > 0 && (what != toSent || kind != standIn) {
				rows = append(rows, deathRow(what, kind, values))
			}
		}
	}
	return rows
}

// deathRow adds the program and the goals.
func deathRow(what, who string, values []float64) report.Row {
	doer := mooring + ", " + who
	switch {
	case who == onceASecond:
		doer = who
	case what == ownEnd:
		doer = alone + ", " + who
	}
	row := many(what, doer, values)
	switch {
	case who == onceASecond:
	case what == toSent, what == toAsked:
		row.Goals = []report.Goal{{Of: report.P99, Most: mostAsked}}
	case what == beyondEnd:
		row.Goals = []report.Goal{{Of: report.P99, Most: mostBeyond}}
	}
	return row
}
