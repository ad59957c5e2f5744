package main

import (
	"context"
	"errors"
	"time"
)

const (
	// residents is the number of launchers on a large node.
	residents = 250

	// settled is the time of an agent's second full scan.
	settled = 35 * time.Second
)

// idle is the agent's usage in a period without events.
type idle struct {
	before, after usage
	ready         time.Duration // from its start until it has adopted all launchers
}

// cores returns CPU time per second.
func (i idle) cores() float64 { return (i.after.cpu - i.before.cpu) / i.seconds() }

func (i idle) switches() float64 {
	return float64(i.after.switches-i.before.switches) / i.seconds()
}

func (i idle) seconds() float64 { return i.after.at.Sub(i.before.at).Seconds() }

// The launchers beside a watched agent.
const (
	launchersNone  = "no launchers"
	launchersAlone = "launchers without VMs"
	launchersVMs   = "launchers with VMs"
)

// resident runs the agent's binary beside n launchers, with or without VMs. It watches the agent
// for some time after it settled.
func resident(
	ctx context.Context, binary string, n int, vms bool, settle, watch time.Duration,
) (_ idle, err error) {
	h, err := startLaunchers("", n, vms)
	if err != nil {
		return idle{}, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	a, err := startAgent(ctx, binary, h.runtime)
	if err != nil {
		return idle{}, err
	}
	defer func() { err = errors.Join(err, a.stop()) }()
	found := idle{}
	if found.ready, err = a.awaitReady(ctx); err != nil {
		return idle{}, err
	}
	if vms {
		if err := a.awaitVMs(ctx, n); err != nil {
			return idle{}, err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return idle{}, err
	}
	if err := a.scrape(ctx); err != nil {
		return idle{}, err
	}
	if found.before, err = usageOf(a.cmd.Process.Pid); err != nil {
		return idle{}, err
	}
	if err := pause(ctx, watch); err != nil {
		return idle{}, err
	}
	found.after, err = usageOf(a.cmd.Process.Pid)
	return found, err
}

// growth is the agent's memory beside n launchers against its memory beside none.
type growth struct {
	none, with usage
	launchers  int
}

// ratio returns the resident memory with launchers as a multiple of that without.
func (g growth) ratio() float64 { return g.with.rss / g.none.rss }

// each returns the anonymous memory for each launcher in bytes. Pages of the program, which the
// kernel loads and drops as it likes, do not count.
func (g growth) each() float64 {
	return (g.with.anonymous - g.none.anonymous) / float64(g.launchers)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
