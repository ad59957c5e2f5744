package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

const (
	// scanTable is the table of scans of all processes.
	scanTable = "scan"

	plainWalk = "a plain walk of /proc"

	// mostScan is the goal for a scan, as a multiple of a plain walk.
	mostScan = 1.5
)

// scans compares the tracker's comparison with all processes, as at the agent's start, with a plain
// walk of /proc. n processes run meanwhile. The tracker has one launcher with one process.
func scans(ctx context.Context, n, rounds int) (_ samples, err error) {
	in, err := newCgroup("launcher")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.remove(context.WithoutCancel(ctx))) }()
	elsewhere, err := newCgroup("elsewhere")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, elsewhere.remove(context.WithoutCancel(ctx))) }()
	if err := startSleeping(elsewhere, n); err != nil {
		return nil, fmt.Errorf("starting %d processes: %w", n, err)
	}
	f, err := startForker(ctx, in)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	t := &tracking{group: in}
	if err := t.start(f); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	found := samples{}
	for range rounds {
		all := []string{plainWalk, mooring}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, name := range all {
			began := time.Now()
			if name == mooring {
				_, err = t.tracker.Resync()
			} else {
				err = walkProcesses(n)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			found.add(name, time.Since(began))
		}
	}
	return found, nil
}

// startSleeping starts n idle processes in a cgroup. Its removal ends them.
func startSleeping(in cgroup, n int) error {
	shell := exec.Command("sh", "-c", `i=0
		while [ $i -lt "$1" ]; do sleep 1000000 >/dev/null & i=$((i + 1)); done
		echo started; wait`, "sh", strconv.Itoa(n))
	out, err := shell.StdoutPipe()
	if err != nil {
		return err
	}
	if err := in.start(shell); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() { _ = shell.Wait() }() // until the removal
	if err != nil || line != "started\n" {
		return fmt.Errorf("the shell wrote %q: %w", line, err)
	}
	return nil
}

// walkProcesses reads the state of each process, the least that a scan without eBPF needs. Fewer
// than least processes are an error.
func walkProcesses(least int) error {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	read := 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		// An unreadable process has ended.
		if _, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat")); err == nil {
			read++
		}
	}
	if read < least {
		return fmt.Errorf("%d processes, want at least %d", read, least)
	}
	return nil
}

func scanRows(processes int) func(samples) []report.Row {
	return func(s samples) []report.Row {
		what := fmt.Sprintf("%d processes", processes)
		row := summaryRow(what, mooring, s[mooring])
		compare(&row, s[mooring], s[plainWalk])
		row.Goals = []report.Goal{{Of: report.Ratio, Most: mostScan}}
		return []report.Row{summaryRow(what, plainWalk, s[plainWalk]), row}
	}
}
