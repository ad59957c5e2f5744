// Command mooring-hook is what launchers find at /run/mooring/hook: it asks the node's
// agent to stop the pod's VM and waits for the answer, and gives heartbeats.
//
// It has to run in any image and as any user: it is static, small, reads no
// configuration, and needs neither /proc nor a writable file system.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/internal/buildinfo"
)

// version is set by release builds.
var version string

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	p := program{out: os.Stdout, errOut: os.Stderr, build: buildinfo.Read(version)}
	return p.run(ctx, os.Args[1:])
}
