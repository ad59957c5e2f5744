package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/bench/stats"
)

const (
	// inLoop is the number of processes for each watcher in a round.
	inLoop = 300

	// eventTimeout is the time for late events. The tracker delays events that are not urgent by a
	// second.
	eventTimeout = 3 * time.Second

	// mostUntracked is the goal for an untracked process, as a multiple of empty programs.
	mostUntracked = 2
)

// processStarts are the costs of starting processes under a watcher.
type processStarts struct {
	walls    samples        // seconds for each process, by watcher
	handlers samples        // seconds for each call, by tracepoint and watcher
	sums     samples        // of one call of each, by watcher
	observed map[string]int // observed processes, by watcher
	started  int            // with each watcher
}

// allTracepoints names the sum of the calls for one process.
const allTracepoints = "fork, exec and exit together"

// tracepoints returns the tracepoints of a process in order, with their names.
func tracepoints() []struct{ tracepoint, name string } {
	return []struct{ tracepoint, name string }{
		{"sched_process_fork", "fork"}, {"sched_process_exec", "exec"},
		{"sched_process_exit", "exit"},
	}
}

// measureProcessStarts has one process start other processes under each watcher, in random order in
// each round.
func measureProcessStarts(ctx context.Context, rounds int) (_ processStarts, err error) {
	in, err := newCgroup("process-starts")
	if err != nil {
		return processStarts{}, err
	}
	defer func() { err = errors.Join(err, in.remove(context.WithoutCancel(ctx))) }()
	elsewhere, err := newCgroup("elsewhere")
	if err != nil {
		return processStarts{}, err
	}
	defer func() { err = errors.Join(err, elsewhere.remove(context.WithoutCancel(ctx))) }()
	f, err := startForker(ctx, in)
	if err != nil {
		return processStarts{}, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	b := processStarts{walls: samples{}, handlers: samples{}, sums: samples{},
		observed: map[string]int{}}
	if _, err := f.do(order{Count: inLoop}); err != nil { // warm up caches
		return b, err
	}
	for range rounds {
		names := watchers()
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			if err := b.loop(ctx, f, name, newWatcher(name, in, elsewhere)); err != nil {
				return b, fmt.Errorf("%s: %w", name, err)
			}
		}
		b.started += inLoop
	}
	return b, nil
}

// loop starts processes under one watcher and measures the time. For a watcher in the kernel it
// repeats this with kernel statistics.
func (b *processStarts) loop(ctx context.Context, f *forker, name string, w watcher) (err error) {
	if err := w.start(f); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	done, err := f.do(order{Count: inLoop})
	if err != nil {
		return err
	}
	b.walls.add(name, done.Took/inLoop)
	if name == tracked || name == netlink {
		awaitObserved(ctx, w)
	}
	b.observed[name] += w.observed()
	if in, ok := w.(counted); ok {
		return b.count(f, name, in)
	}
	return nil
}

// awaitSeen waits for late events. Events after the time-out count as lost.
func awaitObserved(ctx context.Context, w watcher) {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	_ = await(ctx, func() (bool, error) { return w.observed() >= inLoop, nil })
}

// count has the kernel measure the programs' run time.
func (b *processStarts) count(f *forker, name string, w counted) (err error) {
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fmt.Errorf("enabling BPF run-time statistics: %w", err)
	}
	defer func() { err = errors.Join(err, counting.Close()) }()
	before, err := w.figures()
	if err != nil {
		return err
	}
	if _, err := f.do(order{Count: inLoop}); err != nil {
		return err
	}
	after, err := w.figures()
	if err != nil {
		return err
	}
	calls := costs(before, after)
	sum := time.Duration(0)
	for _, at := range tracepoints() {
		b.handlers.add(cell(name, at.name), calls[at.tracepoint])
		sum += calls[at.tracepoint]
	}
	b.sums.add(name, sum)
	return nil
}

// costs returns the mean time of a call of each program between two statistics, by program name. It
// omits programs without calls.
func costs(before, after []bpf.ProgramStats) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, p := range after {
		at := slices.IndexFunc(before, func(b bpf.ProgramStats) bool { return b.Name == p.Name })
		if at < 0 || p.Runs == before[at].Runs {
			continue
		}
		all[p.Name] = (p.Runtime - before[at].Runtime) / time.Duration(p.Runs-before[at].Runs)
	}
	return all
}

func handlerCostRows(b processStarts) []report.Row {
	rows := []report.Row{summaryRow(allTracepoints, emptyPrograms, b.sums[emptyPrograms])}
	for _, name := range []string{untracked, tracked} {
		for _, at := range tracepoints() {
			rows = append(rows, summaryRow(at.name, name, b.handlers[cell(name, at.name)]))
		}
		sum := summaryRow(allTracepoints, name, b.sums[name])
		sum.Ratio = new(stats.RatioOfMedians(b.sums[name], b.sums[emptyPrograms]))
		if name == untracked {
			sum.Goals = []report.Goal{{Of: report.Ratio, Most: mostUntracked}}
		}
		rows = append(rows, sum)
	}
	return rows
}

func watcherRows(b processStarts) []report.Row {
	var rows []report.Row
	for _, name := range watchers() {
		row := summaryRow("fork, exec and exit", name, b.walls[name])
		if name != noWatcherName {
			ratio := stats.RatioOfMedians(b.walls[name], b.walls[noWatcherName])
			row.Ratio = &ratio
		}
		rows = append(rows, row)
	}
	for _, name := range []string{tracked, netlink, polling} {
		label := fmt.Sprintf("observed, of %d processes", b.started)
		rows = append(rows, report.Row{Measurement: label, Candidate: name, Unit: report.Count,
			Value: float64(b.observed[name])})
	}
	return rows
}
