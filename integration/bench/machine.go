package main

import (
	"time"

	"github.com/spf13/cobra"
)

// amounts are the numbers and durations of measurements.
type amounts struct {
	rounds        int           // of round trips
	connections   int           // of each plugin
	handled       int           // launchers, under the profiler
	residents     int           // launchers beside an agent
	settle        time.Duration // wait before watching an agent
	watch         time.Duration // of an idle agent
	creations     time.Duration // of containers, on the node
	processStarts int           // rounds of process starts under watchers
	scanned       int           // processes
	scans         int           // rounds
	deaths        deathAmounts
	storm         time.Duration // of forks
}

// full gives the published figures, quick only checks the program.
func full() amounts {
	return amounts{
		rounds: 5000, connections: 40, handled: 40000,
		residents: residents, settle: settled, watch: time.Minute, creations: 3 * time.Minute,
		processStarts: 30, scanned: 10000, scans: 100, storm: 10 * time.Second,
		deaths: deathAmounts{residents: residents, rounds: 25, inRound: deathsInRound, qemu: 100},
	}
}

func quick() amounts {
	return amounts{
		rounds: 20, connections: 2, handled: 200,
		residents: residents, watch: time.Second,
		processStarts: 1, scanned: 100, scans: 1,
		deaths: deathAmounts{residents: 3, rounds: 1, inRound: 4, qemu: 2},
		storm:  time.Second,
	}
}

type measureFlags struct {
	result string // file
	quick  bool
	during time.Duration // of creating containers, 0 for the default
}

func (f *measureFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.result, "result", "", "file for the figures; keeps the tables of "+
		"other commands")
	c.Flags().BoolVar(&f.quick, "quick", false, "run each measurement briefly to check the "+
		"program: the figures are not meaningful")
}

func (f *measureFlags) amounts() amounts {
	a := full()
	if f.quick {
		a = quick()
	}
	if f.during > 0 {
		a.creations = f.during
	}
	return a
}

// machineCommand runs the measurements without a node.
func machineCommand() *cobra.Command {
	var f measureFlags
	var agent, profile string
	var only []string
	c := &cobra.Command{
		Use: "machine",
		Short: "Measure on this machine: the plugin, the tracker, and the agent beside 250 " +
			"launchers",
		Long: "Measures on this machine, with NRI's runtime library in place of containerd.\n" +
			"Needs cgroup v2, alone or beside version 1. Needs root for cgroups, tmpfs and eBPF.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := chosen(measurements(f.amounts(), agent, profile), only)
			if err != nil {
				return err
			}
			tables, err := takeAll(c.Context(), all)
			if err != nil {
				return err
			}
			return publish(tables, f.result)
		},
	}
	f.add(c)
	c.Flags().StringVar(&agent, "agent", "bin/mooring-agent", "the agent's program")
	c.Flags().StringSliceVar(&only, "only", nil, "measure only this table, for example "+
		deathTable+"; may be repeated")
	c.Flags().StringVar(&profile, "cpuprofile", "", "file for the handler's CPU profile, for go "+
		"tool pprof")
	return c
}
