package bpf

import (
	"fmt"
	"time"
)

// Stats are figures about a tracker.
type Stats struct {
	Processes    int // tracked now
	MaxProcesses int
	Groups       int // registered now
	MaxGroups    int

	// Counted since the maps were created.
	LostEvents    uint64 // dropped because the ring was full
	LostProcesses uint64 // found no room when they started or moved
	Stale         uint64 // exit was missed, noticed at the reuse of the number
	SkippedCalls  uint64 // handler calls skipped by the kernel; Resync finds the processes

	Programs []ProgramStats // by name
}

// ProgramStats is the cost of a handler. The kernel counts only while kernel.bpf_stats_enabled is 1
// or ebpf.EnableStats is in effect.
type ProgramStats struct {
	Name    string // of the tracepoint
	Runs    uint64
	Runtime time.Duration
}

// Stats returns the figures. It reads the whole map of processes.
func (v *View) Stats() (Stats, error) {
	var s Stats
	if err := v.readStats(&s); err != nil {
		return s, fmt.Errorf("reading the tracker's figures: %w", err)
	}
	return s, nil
}

func (v *View) readStats(s *Stats) error {
	processes, err := readMap[uint32, trackerProcess](v.maps[trackerMapProcesses])
	if err != nil {
		return err
	}
	groups, err := readMap[uint64, uint64](v.maps[trackerMapGroups])
	if err != nil {
		return err
	}
	s.Processes, s.MaxProcesses = len(processes), int(v.maps[trackerMapProcesses].MaxEntries())
	s.Groups, s.MaxGroups = len(groups), int(v.maps[trackerMapGroups].MaxEntries())
	for which, to := range map[trackerCounter]*uint64{
		trackerCounterCOUNT_LOST_EVENTS:    &s.LostEvents,
		trackerCounterCOUNT_LOST_PROCESSES: &s.LostProcesses,
		trackerCounterCOUNT_STALE:          &s.Stale,
	} {
		if *to, err = v.count(which); err != nil {
			return err
		}
	}
	if s.SkippedCalls, err = v.skippedCalls(); err != nil {
		return err
	}
	s.Programs, err = v.programStats()
	return err
}

func (v *View) programStats() ([]ProgramStats, error) {
	var all []ProgramStats
	for _, name := range handlers() {
		stats, err := v.programs.programs[name].Stats()
		if err != nil {
			return nil, err
		}
		all = append(all, ProgramStats{Name: tracepoints[name], Runs: stats.RunCount,
			Runtime: stats.Runtime})
	}
	return all, nil
}

// count returns a counter's sum over all CPUs.
func (v *View) count(which trackerCounter) (uint64, error) {
	var each []uint64
	if err := v.maps[trackerMapCounters].Lookup(which, &each); err != nil {
		return 0, err
	}
	sum := uint64(0)
	for _, n := range each {
		sum += n
	}
	return sum, nil
}
