package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

const (
	// deathsInRound launchers die one after the other with Mooring, and at random moments of a
	// second with the polling watcher.
	deathsInRound = 40

	// directInRound is the number of VM processes that the benchmark itself ends.
	byHandInRound = 10

	// idlePause is the pause before a launcher dies. It keeps earlier starts and ends of
	// processes out of the measurement.
	idlePause = 20 * time.Millisecond

	mostSignal    = 1.25
	mostSignalP99 = 1.5
	mostOverhead  = 10e-3
)

// The measured steps of a death, and the measured programs.
const (
	toSent       = "launcher's death until SIGTERM is sent"
	toReceived   = "launcher's death until the VM receives SIGTERM"
	toConfirmed  = "launcher's death until the VM's end is confirmed"
	shutdownTime = "VM shutdown, from SIGTERM to the end"
	overhead     = "confirmed end, without the VM shutdown"

	standIn  = "stand-in of 64 MiB"
	realQEMU = "QEMU"

	minimalWatcher = "minimal watcher (one pidfd)"
	pollingWatcher = "a scan every second"
	directSignal   = "direct SIGTERM"
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
// VMs directly, and kills as many launchers with the polling watcher.
func (w *agentNode) round(ctx context.Context, programs emulators, n int, found samples) error {
	program := func() *exec.Cmd { return standInVM(ctx, programs.standIn, vmMemory) }
	for i := range n {
		with := w.one
		if i%(deathsInRound/byHandInRound) == 0 {
			with = w.pair
		}
		for _, candidate := range inRandomOrder(mooring, minimalWatcher) {
			var err error
			if candidate == mooring {
				err = with(ctx, program, standIn, found)
			} else {
				err = recordMinimalDeath(ctx, programs.self, found)
			}
			if err != nil {
				return err
			}
		}
	}
	late, err := pollDeaths(ctx, programs.self, n)
	if err != nil {
		return fmt.Errorf("%s: %w", pollingWatcher, err)
	}
	for _, took := range late {
		found.add(cell(pollingWatcher, toReceived), took)
	}
	return nil
}

// pair kills a launcher, and sends SIGTERM to a VM of the same kind.
func (w *agentNode) pair(
	ctx context.Context, program func() *exec.Cmd, kind string, found samples,
) error {
	took, err := endDirectly(ctx, program())
	if err != nil {
		return fmt.Errorf("%s, %s: %w", kind, directSignal, err)
	}
	found.add(cell(kind, shutdownTime), took)
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
		found.add(cell(kind, toReceived), took.received)
	}
	found.add(cell(kind, toConfirmed), took.confirmed)
	found.add(cell(kind, overhead), took.overhead)
	return nil
}

// recordMinimalDeath kills a launcher with the minimal watcher.
func recordMinimalDeath(ctx context.Context, program string, found samples) error {
	took, err := minimalDeath(ctx, program)
	if err != nil {
		return fmt.Errorf("%s: %w", minimalWatcher, err)
	}
	found.add(cell(minimalWatcher, toSent), took.sent)
	found.add(cell(minimalWatcher, toReceived), took.received)
	return nil
}

// deathRows omits rows without measurements: QEMU may be missing, and does not report its SIGTERM.
func deathRows(s samples) []report.Row {
	var rows []report.Row
	for _, step := range []string{toSent, toReceived} {
		base := s[cell(minimalWatcher, step)]
		rows = append(rows, summaryRow(step, minimalWatcher, base))
		for _, candidate := range []string{standIn, pollingWatcher} {
			if values := s[cell(candidate, step)]; len(values) > 0 {
				row := deathRow(step, candidate, values)
				compare(&row, values, base)
				rows = append(rows, row)
			}
		}
	}
	for _, kind := range []string{standIn, realQEMU} {
		for _, step := range []string{toSent, toConfirmed, shutdownTime, overhead} {
			values := s[cell(kind, step)]
			if len(values) > 0 && (step != toSent || kind != standIn) {
				rows = append(rows, deathRow(step, kind, values))
			}
		}
	}
	return rows
}

// deathRow adds the program and the goals.
func deathRow(step, candidate string, values []float64) report.Row {
	shown := mooring + ", " + candidate
	switch {
	case candidate == pollingWatcher:
		shown = candidate
	case step == shutdownTime:
		shown = directSignal + ", " + candidate
	}
	row := summaryRow(step, shown, values)
	switch {
	case candidate == pollingWatcher:
	case candidate == standIn && (step == toSent || step == toReceived):
		row.Goals = []report.Goal{{Of: report.Ratio, Most: mostSignal},
			{Of: report.P99Ratio, Most: mostSignalP99}}
	case step == overhead:
		row.Goals = []report.Goal{{Of: report.P99, Most: mostOverhead}}
	}
	return row
}
