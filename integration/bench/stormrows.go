package main

import "github.com/mooring-vm/mooring/integration/bench/report"

func stormRows(all map[string]storm) []report.Row {
	var rows []report.Row
	for _, condition := range []string{agentUp, agentDown} {
		s := all[condition]
		none := []report.Goal{{Of: report.Value, Most: 0}}
		for _, figure := range []struct {
			name  string
			value float64
			goals []report.Goal
		}{
			{"processes started, tracked", float64(s.tracked), nil},
			{"processes started, not tracked", float64(s.untracked), nil},
			{"events lost because the ring was full", float64(s.lostEvents), nil},
			{"processes without an end event", float64(s.missedEnds), nil},
			{"processes lost because the map was full", float64(s.lostProcesses), none},
			{"missing or surplus map entries, before Resync", float64(s.differencesBefore), nil},
			{"missing or surplus map entries, after Resync", float64(s.differencesAfter), none},
		} {
			rows = append(rows, report.Row{Measurement: figure.name, Candidate: condition,
				Unit: report.Count, Value: figure.value, Goals: figure.goals})
		}
	}
	return rows
}
