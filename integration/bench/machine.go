package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// amounts are how much is measured.
type amounts struct {
	rounds      int           // of round trips
	connections int           // of each plugin
	handled     int           // launchers, under the profiler
	settle      time.Duration // before an agent is watched
	watch       time.Duration // an idle agent
	creations   time.Duration // of containers, on the node
}

// full is what the published figures are of, quick a look at whether it works.
func full() amounts {
	return amounts{rounds: 5000, connections: 40, handled: 40000, settle: settled, watch: time.Minute, creations: 3 * time.Minute}
}

func quick() amounts {
	return amounts{rounds: 20, connections: 2, handled: 200, settle: 0, watch: time.Second}
}

type measureFlags struct {
	result string // file
	quick  bool
	during time.Duration // of creating containers; 0: the default
}

func (f *measureFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.result, "result", "", "file for the figures; tables of other commands in it stay")
	c.Flags().BoolVar(&f.quick, "quick", false, "only see whether it works: the figures are worth nothing")
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

// machineCommand measures what needs no node.
func machineCommand() *cobra.Command {
	var f measureFlags
	var agent, profile string
	c := &cobra.Command{
		Use:   "machine",
		Short: "Measure on this machine: round trips, connections, and the agent beside 250 launchers",
		Long: "Measures on this machine, with NRI's own runtime side in the place of containerd. Needs root, for\n" +
			"the cgroups of the launchers and the agent's tmpfs, and cgroup v2, be it beside version 1.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			tables, err := measureMachine(c.Context(), f.amounts(), agent, profile)
			if err != nil {
				return err
			}
			return publish(tables, f.result)
		},
	}
	f.add(c)
	c.Flags().StringVar(&agent, "agent", "bin/mooring-agent", "the agent's program")
	c.Flags().StringVar(&profile, "cpuprofile", "", "file for the handler's CPU profile, for go tool pprof")
	return c
}

func measureMachine(ctx context.Context, a amounts, agent, profile string) (tables, error) {
	t := tables{}
	say("round trips of CreateContainer, %d rounds", a.rounds)
	trips, err := roundTrips(ctx, a.rounds)
	if err != nil {
		return nil, err
	}
	t.add(roundTripTable, roundTripRows(trips))
	say("connections with a thousand containers, %d of each plugin", a.connections)
	connects, err := connections(ctx, a.connections, known)
	if err != nil {
		return nil, err
	}
	handled, err := handler(ctx, a.connections, known)
	if err != nil {
		return nil, err
	}
	t.add(synchronizeTable, synchronizeRows(connects, handled))
	say("where the time goes, %d launchers", a.handled)
	where, err := profileHandler(ctx, a.handled, profile)
	if err != nil {
		return nil, err
	}
	t.add(handlerTable, handlerRows(where))
	say("the agent beside %d launchers, for %s", residents, a.settle+a.watch)
	idle, err := resident(ctx, agent, residents, a.settle, a.watch)
	if err != nil {
		return nil, err
	}
	t.add(residentTable, residentRows(idle))
	return t, nil
}
