package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/mooring-vm/mooring/integration/bench/report"
)

// measurement is one run. It produces one or more tables.
type measurement struct {
	name     string // to select it alone
	progress string // progress message
	take     func(context.Context) (tables, error)
}

// measurements returns the measurements without a node.
func measurements(a amounts, agent, profile string) []measurement {
	return slices.Concat(pluginMeasurements(a, profile), trackerMeasurements(a, agent),
		[]measurement{{
			residentTable, fmt.Sprintf("the idle agent beside %d launchers, %s each without and "+
				"with VMs", a.residents, a.settle+a.watch),
			func(ctx context.Context) (tables, error) { return measureResident(ctx, agent, a) },
		}})
}

// pluginMeasurements measure the container runtime's waiting time.
func pluginMeasurements(a amounts, profile string) []measurement {
	return []measurement{{
		roundTripTable, fmt.Sprintf("round trips of CreateContainer, %d rounds", a.rounds),
		func(ctx context.Context) (tables, error) {
			return tableOf(roundTripTable, roundTripRows)(roundTrips(ctx, a.rounds))
		},
	}, {
		synchronizeTable, fmt.Sprintf("connecting with 1000 containers, %d times for each plugin",
			a.connections),
		func(ctx context.Context) (tables, error) { return measureSynchronize(ctx, a) },
	}, {
		handlerTable, fmt.Sprintf("CPU profile of the handler, %d launchers", a.handled),
		func(ctx context.Context) (tables, error) {
			return tableOf(handlerTable, handlerRows)(profileHandler(ctx, a.handled, profile))
		},
	}}
}

// trackerMeasurements measure the tie between VMs and launchers.
func trackerMeasurements(a amounts, agent string) []measurement {
	return []measurement{{
		watcherTable, fmt.Sprintf("process starts under each watcher, %d rounds", a.processStarts),
		func(ctx context.Context) (tables, error) {
			found, err := measureProcessStarts(ctx, a.processStarts)
			if err != nil {
				return nil, err
			}
			return tables{watcherTable: watcherRows(found),
				handlerCostTable: handlerCostRows(found)}, nil
		},
	}, {
		scanTable, fmt.Sprintf("scans of %d processes, %d rounds", a.scanned, a.scans),
		func(ctx context.Context) (tables, error) {
			return tableOf(scanTable, scanRows(a.scanned))(scans(ctx, a.scanned, a.scans))
		},
	}, {
		deathTable, fmt.Sprintf("deaths of %d launchers", a.deaths.rounds*a.deaths.inRound+
			a.deaths.qemu),
		func(ctx context.Context) (tables, error) {
			return tableOf(deathTable, deathRows)(deaths(ctx, agent, a.deaths))
		},
	}, {
		stormTable, fmt.Sprintf("two storms of forks, of %s", a.storm),
		func(ctx context.Context) (tables, error) {
			return tableOf(stormTable, stormRows)(storms(ctx, a.storm))
		},
	}}
}

// tableOf makes a table from a measurement without an error.
func tableOf[T any](name string, rows func(T) []report.Row) func(T, error) (tables, error) {
	return func(found T, err error) (tables, error) {
		if err != nil {
			return nil, err
		}
		return tables{name: rows(found)}, nil
	}
}

func measureSynchronize(ctx context.Context, a amounts) (tables, error) {
	connects, err := connections(ctx, a.connections, knownLaunchers)
	if err != nil {
		return nil, err
	}
	handled, err := handler(ctx, a.connections, knownLaunchers)
	if err != nil {
		return nil, err
	}
	return tables{synchronizeTable: synchronizeRows(connects, handled)}, nil
}

func measureResident(ctx context.Context, agent string, a amounts) (tables, error) {
	var rows []report.Row
	g := growth{launchers: a.residents}
	for _, condition := range []string{launchersNone, launchersAlone, launchersVMs} {
		n := a.residents
		if condition == launchersNone {
			n = 0
		}
		found, err := resident(ctx, agent, n, condition == launchersVMs, a.settle, a.watch)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", condition, err)
		}
		rows = append(rows, residentRows(condition, found)...)
		if condition == launchersNone {
			g.none = found.after
			continue
		}
		g.with = found.after
		rows = append(rows, growthRows(condition, g)...)
	}
	return tables{residentTable: rows}, nil
}

// chosen returns the measurements with these names, all without names.
func chosen(all []measurement, names []string) ([]measurement, error) {
	if len(names) == 0 {
		return all, nil
	}
	var some []measurement
	for _, name := range names {
		at := slices.IndexFunc(all, func(m measurement) bool { return m.name == name })
		if at < 0 {
			return nil, fmt.Errorf("measurement %q: want one of %v", name, namesOf(all))
		}
		some = append(some, all[at])
	}
	return some, nil
}

func namesOf(all []measurement) (names []string) {
	for _, m := range all {
		names = append(names, m.name)
	}
	return names
}

// takeAll runs the measurements one after the other.
func takeAll(ctx context.Context, all []measurement) (tables, error) {
	t := tables{}
	for _, m := range all {
		logf("%s: %s", m.name, m.progress)
		made, err := m.take(ctx)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", m.name, err)
		}
		maps.Copy(t, made)
	}
	return t, nil
}
