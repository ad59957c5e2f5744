package main

import "github.com/mooring-vm/mooring/integration/bench/report"

func stormRows(all map[string]storm) []report.Row {
	var rows []report.Row
	for _, condition := range []string{agentUp, agentDown} {
		s := all[condition]
		none := []report.Goal{{Of: report.Value, Most: 0}}
		for _, figure := range []struct {
			what  string
			value float64
			goals []report.Goal
		}{
			{"processes started, tracked", float64(s.tracked), nil},
			{"processes started, not tracked", float64(s.untracked), nil},
			{"events lost: no room in the ring", float64(s.lostEvents), nil},
			{"processes of whose end no event told", float64(s.missedEnds), nil},
			{"processes lost: no room in the map", float64(s.lostProcesses), none},
			{"wrong in the state, before Resync", float64(s.wrongBefore), nil},
			{"wrong in the state, after Resync", float64(s.wrong), none},
		} {
			rows = append(rows, report.Row{Measurement: figure.what, Candidate: condition,
				Unit: report.Count, Value: figure.value, Goals: figure.goals})
		}
	}
	return rows
}
