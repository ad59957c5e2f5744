package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/integration/bench/stats"
)

// The names of the tables, used by the pages.
const (
	roundTripTable   = "roundTrip"
	synchronizeTable = "synchronize"
	handlerTable     = "handler"
	residentTable    = "resident"
	createTable      = "create"
	nodeAgentTable   = "nodeAgent"
	handlerCostTable = "processHandlers"
	watcherTable     = "processWatchers"
	deathTable       = "launcherDeath"
	stormTable       = "forkStorm"
)

// The goals of the project.
const (
	mostRoundTrip    = 1.3
	mostRoundTripP99 = 1.2
	mostFirst        = 5e-3 // the whole answer: more than a container's wait for the connection
	mostSynchronize  = 50e-3
	mostCreate       = 1.02
	mostMemory       = 30e6
)

// tables are rows by the table's name.
type tables map[string][]report.Row

func (t tables) add(name string, rows []report.Row) { t[name] = rows }

// publish prints the tables, and writes them to file unless file is empty.
func publish(t tables, file string) error {
	where, err := report.ThisMachine()
	if err != nil {
		return err
	}
	return publishOf(t, where, file)
}

func publishOf(t tables, where report.Machine, file string) error {
	r := report.Result{Tables: map[string]report.Table{}}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		r.Tables[name] = report.Table{Machine: where, Rows: t[name]}
		fmt.Printf("\n%s\n", strings.ReplaceAll(name, "_", " "))
		if err := r.Tables[name].Print(os.Stdout); err != nil {
			return err
		}
	}
	if file == "" {
		return nil
	}
	return r.Save(file)
}

func roundTripRows(s samples) []report.Row {
	var rows []report.Row
	for _, w := range workloads() {
		base := s[cell(empty, w.name)]
		for _, name := range candidates() {
			row := summaryRow("CreateContainer, "+w.name, name, s[cell(name, w.name)])
			if name != empty {
				compare(&row, s[cell(name, w.name)], base)
			}
			if name == mooring {
				row.Goals = []report.Goal{{Of: report.Ratio, Most: mostRoundTrip},
					{Of: report.P99Ratio, Most: mostRoundTripP99}}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// compare adds the ratios to a baseline.
func compare(row *report.Row, values, base []float64) {
	row.Ratio = new(stats.RatioOfMedians(values, base))
	row.P99Ratio = new(stats.RatioOfP99s(values, base))
}

func synchronizeRows(s samples, handled []float64) []report.Row {
	var rows []report.Row
	for _, step := range []string{connectStep, synchronizeStep, firstStep} {
		for _, name := range []string{empty, mooring} {
			row := summaryRow(step, name, s[cell(name, step)])
			if name == mooring {
				ratio := stats.RatioOfMedians(s[cell(name, step)], s[cell(empty, step)])
				row.Ratio = &ratio
				row.Goals = []report.Goal{{Of: report.Median, Most: mostSynchronize}}
				if step == firstStep {
					row.Goals = []report.Goal{{Of: report.P99, Most: mostFirst}}
				}
			}
			rows = append(rows, row)
		}
	}
	return append(rows, summaryRow("Synchronize, handler alone", mooring, handled))
}

func handlerRows(b breakdown) []report.Row {
	rows := []report.Row{{Measurement: "the handler, one launcher", Unit: report.Seconds,
		Value: stats.Summarise(b.took).Median}}
	for i, p := range parts() {
		rows = append(rows, report.Row{Measurement: p.name, Unit: report.Share, Value: b.shares[i]})
	}
	return rows
}

func residentRows(condition string, i idle) []report.Row {
	return []report.Row{
		{Measurement: "resident memory (RSS)", Candidate: condition, Unit: report.Bytes,
			Value: i.after.rss, Goals: []report.Goal{{Of: report.Value, Most: mostMemory}}},
		{Measurement: "proportional share (PSS)", Candidate: condition, Unit: report.Bytes,
			Value: i.after.pss},
		{Measurement: "anonymous memory", Candidate: condition, Unit: report.Bytes,
			Value: i.after.anonymous},
		{Measurement: "file-backed memory (the program)", Candidate: condition, Unit: report.Bytes,
			Value: i.after.rss - i.after.anonymous},
		{Measurement: "CPU, idle", Candidate: condition, Unit: report.Cores,
			Value: i.cores()},
		{Measurement: "context switches, idle", Candidate: condition,
			Unit: report.PerSecond, Value: i.switches()},
		{Measurement: "time from start to ready", Candidate: condition, Unit: report.Seconds,
			Value: i.ready.Seconds()},
	}
}

// growthRows compares an agent beside launchers with one beside none.
func growthRows(condition string, g growth) []report.Row {
	return []report.Row{
		{Measurement: "resident memory, of that without launchers", Candidate: condition,
			Unit: report.Share, Value: g.ratio()},
		{Measurement: "anonymous memory for each launcher", Candidate: condition,
			Unit: report.Bytes, Value: g.each()},
	}
}

// many returns a row of measurements in seconds.
func summaryRow(name, candidate string, values []float64) report.Row {
	s := stats.Summarise(values)
	return report.Row{Measurement: name, Candidate: candidate, Unit: report.Seconds, Summary: &s}
}
