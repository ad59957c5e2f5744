package main

import (
	"context"

	"github.com/mooring-vm/mooring/shim/heartbeat"
)

const heartbeatHelp = `Sends a heartbeat at once and then one each interval, until SIGTERM. Start it beside the
launcher's own processes, so that it ends with them. The heartbeat only shows that the
container runs. A program whose work can hang should touch the file itself.

  mooring-hook heartbeat [flags]
`

func (p program) heartbeat(ctx context.Context, args []string) error {
	f := p.flags(heartbeatHelp)
	file := f.String("file", heartbeat.DefaultFile, "the `file` to touch")
	interval := f.Duration("interval", heartbeat.DefaultInterval,
		"time between two heartbeats: a third of watchdog.lifecycle.mooring.dev or less")
	if err := p.parse(f, args); err != nil {
		return err
	}
	switch {
	case f.NArg() > 0:
		return p.misused("heartbeat takes no argument, got %q", f.Arg(0))
	case *interval <= 0:
		return p.misused("--interval %s: want more than zero", *interval)
	}
	return heartbeat.Keep(ctx, *file, *interval)
}
